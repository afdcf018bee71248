"""The strategy SlidingWindow: what is oldest goes, and one note says how much went.

Whole turns first, then the oldest steps of the present task. What was summarised stays: it was
paid for. No model is needed, so every ladder can end with it.
"""

from __future__ import annotations

import re

from treadle.compaction.conversation import Conversation, is_persons
from treadle.compaction.ladder import CompactionEnv, Strategy

_COUNT = re.compile(r"(\d+) earlier messages? ")


class SlidingWindow(Strategy):
    """Drops the oldest turns, then the oldest steps of the present one, until the target is met."""

    name = "sliding_window"

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Drop as much as it takes; what is never given up stays, whatever the target."""
        before = env.conversation
        gone: set[int] = set()
        made: Conversation | None = None
        for unit in _units(before):
            gone |= unit
            made = _without(before, gone)
            if env.measure(made) <= env.target:
                break
        return made


def _units(conversation: Conversation) -> list[set[int]]:
    """Return what may be dropped, in the order in which it is: turns, then the task's steps."""
    protected = conversation.protected
    starts = [
        place
        for place, entry in enumerate(conversation.entries)
        if is_persons(entry) and not (place and is_persons(conversation.entries[place - 1]))
    ]
    present = starts[-1] if starts else 0
    turns = [range(start, end) for start, end in zip([0, *starts], [*starts, present], strict=True)]
    present_steps = [step for step in conversation.steps if step.start >= present]
    found = [
        {place for place in unit if place not in protected and _may_go(conversation, place)}
        for unit in (*turns, *present_steps)
    ]
    return [unit for unit in found if unit]


def _may_go(conversation: Conversation, place: int) -> bool:
    return conversation.entries[place].made is None


def _without(conversation: Conversation, gone: set[int]) -> Conversation:
    """Return the conversation without some places, and with the note that says so."""
    count = len(gone) + sum(
        int(found.group(1))
        for entry in conversation.entries
        if entry.made == "note" and (found := _COUNT.search(entry.message.text))
    )
    left = conversation.without(gone)
    head = sum(entry.made == "summary" for entry in left.entries)
    return left.noting(note_text(count), head)


def note_text(count: int) -> str:
    """Say how many messages went, in all."""
    messages = "1 earlier message is" if count == 1 else f"{count} earlier messages are"
    return f"{messages} not shown any more; ask if something of them is needed."
