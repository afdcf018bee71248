"""The agent's skills, named below its instructions so that the model can read one when it fits.

Belongs inside SystemPrompt, whose message it adds to. Byte-stable from turn to turn as long as
the skills are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.secrets import known
from treadle.stack.stack import App
from treadle.thread.message import clean
from treadle.tools.skills import Skill
from treadle.turn.env import Env

HEADING = "Skills: before a task that one of these is for, read it with the tool `skill`."


class Skills:
    """Lists the name and the description of each skill; says nothing where there are none."""

    def __init__(self, app: App[Env], *, skills: Sequence[Skill]) -> None:
        self._app = app
        self._skills = skills

    async def __call__(self, env: Env) -> None:
        """Add the list to the instructions, then pass the env inwards."""
        if self._skills:
            head = env.messages[0]
            before = [head.text] if head.role == "system" else []
            env.instruct("\n\n".join([*before, listed(self._skills)]))
        await self._app(env)


def listed(skills: Sequence[Skill]) -> str:
    """Return what a model is told of skills."""
    lines = (f"- {one.name}: {' '.join(one.description.split())}" for one in skills)
    return known().redact(clean("\n".join([HEADING, *lines])))
