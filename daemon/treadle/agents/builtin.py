"""The agent that is there without a file: it reads and answers, in the folder of its session."""

from __future__ import annotations

from treadle.agents.definition import AgentDefinition

# Short, for the embedded model reads it before its first answer; without dates or names, so that
# it is the same bytes at every turn and prompt caches hit.
ASSISTANT_INSTRUCTIONS = (
    "You are a helpful assistant. You remember everything said in this conversation. "
    "Answer briefly and plainly. Use your tools to look at files instead of guessing, "
    "and say so when you do not know."
)

ASSISTANT = AgentDefinition(
    name="assistant",
    description="Answers questions and reads files in the current folder",
    instructions=ASSISTANT_INSTRUCTIONS,
    permissions="read_only",
    sandbox="local",
)
