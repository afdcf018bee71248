"""The strategy ToolResults: older outputs of tools become short notes; no model is needed.

Owns which results those are, and what stands in their place.
"""

from __future__ import annotations

from treadle.compaction.conversation import Conversation
from treadle.compaction.cutting import IN_SESSION, Cut
from treadle.compaction.ladder import CompactionEnv, Strategy, fewest
from treadle.thread.history import MARK

# A smaller one is hardly larger than what would stand in its place.
LEAST_TOKENS = 200

# What a provider takes as a tool's name; whatever a model made up beyond that says nothing.
NAME_CHARACTERS = 64


class ToolResults(Strategy):
    """Rewrites results of tools, oldest first, until the target is met; never the newest step's."""

    name = "tool_results"

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Rewrite as many as it takes."""
        before = env.conversation
        texts = _notes(before)
        if not texts:
            return None
        places, all_of_them = sorted(texts), before.rewrite(texts)

        def rewritten(count: int) -> Conversation:
            return before.beginning_as(all_of_them, places[count - 1] + 1)

        count = fewest(len(places), lambda count: env.measure(rewritten(count)) <= env.target)
        return rewritten(count)


def _notes(conversation: Conversation) -> dict[int, str]:
    """Return, by place, what may stand in the place of results."""
    found: dict[int, str] = {}
    names = _names(conversation)
    newest = conversation.steps[-1] if conversation.steps else ()
    for place, entry in enumerate(conversation.entries):
        size = conversation.sizes[place]
        if entry.message.role != "tool" or size.tokens <= LEAST_TOKENS:
            continue
        if place in newest or entry.ordinal is None:
            continue
        cut = Cut.of(entry.message, entry.ordinal in conversation.rewritten)
        text = _note(names.get(place, "a tool"), cut)
        if len(text) < len(entry.message.text) or size.attachments:
            found[place] = text
    return found


def _note(name: str, cut: Cut) -> str:
    """Say what a result was, and how a model comes by it if it has to."""
    what = f"{cut.whole_characters} characters"
    if cut.attachments:
        what += f" and {cut.attachments}"
    how = "call it again should you still need it"
    if cut.where and cut.where != IN_SESSION:
        how = f"the whole of it is in {cut.where}"
    return f"{MARK}left out the result of {name[:NAME_CHARACTERS]}: {what}; {how}]"


def _names(conversation: Conversation) -> dict[int, str]:
    """Return the names of the tools whose results stand at places."""
    found: dict[int, str] = {}
    for step in conversation.steps:
        calls = conversation.entries[step[0]].message.tool_calls
        names = {call.id: call.name for call in reversed(calls)}
        for place in step[1:]:
            name = names.get(conversation.entries[place].message.tool_call_id)
            if name is not None:
                found[place] = name
    return found
