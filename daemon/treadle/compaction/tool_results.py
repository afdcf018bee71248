"""The strategy ToolResults: older outputs of tools become short notes; no model is needed.

Owns which results those are, and what stands in their place.
"""

from __future__ import annotations

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import CompactionEnv, Strategy
from treadle.thread.history import MARK

# A smaller one is hardly larger than what would stand in its place.
LEAST_TOKENS = 200

# Its beginning is how one is known that was rewritten before.
_BEGINNING = MARK + "left out the result of "


class ToolResults(Strategy):
    """Rewrites results of tools, oldest first, until the target is met; never the newest step's."""

    name = "tool_results"

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Rewrite as many as it takes."""
        conversation = env.conversation
        for place in _results(conversation):
            if env.measure(conversation) <= env.target:
                break
            conversation = conversation.rewrite({place: _note(conversation, place)})
        return conversation


def _results(conversation: Conversation) -> list[int]:
    """Return the places of the results that may be rewritten."""
    newest = conversation.steps[-1] if conversation.steps else range(0)
    return [
        place
        for place, entry in enumerate(conversation.entries)
        if entry.message.role == "tool"
        and place not in newest
        and entry.ordinal is not None
        and not entry.message.text.startswith(_BEGINNING)
        and tokens_of([entry.message]) > LEAST_TOKENS
    ]


def _note(conversation: Conversation, place: int) -> str:
    message = conversation.entries[place].message
    what = f"{_BEGINNING}{_tool(conversation, place)}: {len(message.text)} characters"
    return f"{what}; call it again if you need it]"


def _tool(conversation: Conversation, place: int) -> str:
    """Return the name of the tool whose result stands at a place."""
    wanted = conversation.entries[place].message.tool_call_id
    for entry in reversed(conversation.entries[:place]):
        for call in entry.message.tool_calls:
            if call.id == wanted:
                return call.name
    return "a tool"
