"""What a new agent's file says: enough to be one, with everything else to uncomment.

Refuses to know where such files lie.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from treadle.agents.naming import MARKDOWN_SUFFIX, PYTHON_SUFFIX


@dataclass(frozen=True, slots=True)
class Template:
    """A new agent's file; `{description}` stands in it, quoted as its language has it."""

    suffix: str
    text: str

    def fill(self, name: str) -> str:
        """Return the file for an agent of this name."""
        # What JSON quotes, YAML and Python take as well.
        return self.text.replace("{description}", json.dumps(f"What {name} is for"))


MARKDOWN = Template(
    MARKDOWN_SUFFIX,
    """---
description: {description}
# model: gpt-5-mini               # else that of config.toml
# base_url: https://example.org/v1
# api_key_env: MY_MODEL_KEY       # the variable that holds the key, never the key
# permissions: read_only          # read_only | ask | auto
# sandbox: virtual                # in memory, sees no file of yours | local: a folder, as cwd says
# cwd: ~/projects/mine            # implies local; without it, local is where the client works
# tools: [read, glob, grep]       # else all that the permissions can ever allow
# fetch_allow: [docs.python.org]  # the hosts that fetch may reach, and their subdomains
# mcp_servers: [wiki]             # those of config.toml; or {wiki: {command: wiki-server}}
# mcp_allow: [wiki__search]       # tools of theirs that need no other permission
# skills: [triage]                # folders with a SKILL.md in skills/, beside agents/
# max_turns: 25                   # model calls of one prompt
# compaction: {ladder: faithful}  # | cheapest; window, compact_at, compact_to, keep_steps and
#                                 # summary_model: when a long conversation is shortened, and how
---
Say here what the agent is and how it should answer.
A line `@include shared/tone.md`, not indented, stands for what that file says.
""",
)

PYTHON = Template(
    PYTHON_SUFFIX,
    '''"""An agent: what `agent()` returns, called anew when this file changes."""

from treadle import App, Definition, Env, ToolError, tool


@tool(capability="read")
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: what to count in.
    """
    if not text.strip():
        raise ToolError("the text is empty; give me one with words in it")
    return len(text.split())


class CountPasses:
    """Counts model calls; a layer sees every one, and what the tools then answered."""

    def __init__(self, app: App[Env]) -> None:
        self._app = app

    async def __call__(self, env: Env) -> None:
        """Pass the env inwards, then count."""
        await self._app(env)
        env.metadata["own.passes"] = env.metadata.get("own.passes", 0) + 1


def agent() -> Definition:
    """Describe the agent; the keys are those of a Markdown agent's front matter."""
    return Definition(
        "Say here what the agent is and how it should answer.",
        description={description},
        permissions="read_only",
        tools=["read", "glob", "grep"],
        own_tools=[count_words],
    ).use(CountPasses)
''',
)
