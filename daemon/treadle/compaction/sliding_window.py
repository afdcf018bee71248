"""The strategy SlidingWindow: what is oldest goes, and one note says how much went.

Whole turns first, then the oldest steps of the present task, then what the person said meanwhile,
but for what began the turn. What was summarised stays: it was paid for. No model is needed, so
every ladder can end with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from treadle.compaction.conversation import Conversation, is_persons
from treadle.compaction.ladder import CompactionEnv, Strategy, fewest
from treadle.thread.history import Placed

_COUNT = re.compile(r"(\d+) earlier messages? ")


class SlidingWindow(Strategy):
    """Drops the oldest turns, then the oldest steps of the present one, until the target is met."""

    name = "sliding_window"

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Drop as much as it takes; what is never given up stays, whatever the target."""
        before = env.conversation
        units = _units(before)
        if not units:
            return None

        def dropped(count: int) -> Conversation:
            return _without(before, set().union(*units[:count]))

        return dropped(fewest(len(units), lambda count: env.measure(dropped(count)) <= env.target))


def note_text(count: int) -> str:
    """Say how many messages went, in all."""
    messages = "1 earlier message is" if count == 1 else f"{count} earlier messages are"
    return f"{messages} not shown any more; ask if something of them is needed."


def _units(conversation: Conversation) -> list[set[int]]:
    """Return what may be dropped, in the order in which it is."""
    starts = _turn_starts(conversation.entries)
    present = starts[-1] if starts else 0
    turns = [range(start, end) for start, end in zip([0, *starts], starts, strict=False)]
    there = range(present, len(conversation.entries))
    present_steps = [step for step in conversation.steps if step[0] in there]
    meanwhile = [[place] for place in there if place not in starts[-1:]]
    return _disjoint(conversation, [*turns, *present_steps, *meanwhile])


def _turn_starts(entries: tuple[Placed, ...]) -> list[int]:
    """Return the places at which turns begin: steered text and what follows at once begin none."""
    starts: list[int] = []
    before: Placed | None = None
    for place, entry in enumerate(entries):
        if entry.made is not None:
            continue
        if is_persons(entry) and (before is None or _is_another_turn(before, entry)):
            starts.append(place)
        before = entry
    return starts


def _is_another_turn(before: Placed, entry: Placed) -> bool:
    if before.message.turn and entry.message.turn:
        return before.message.turn != entry.message.turn
    return not is_persons(before)


def _disjoint(conversation: Conversation, units: Iterable[Iterable[int]]) -> list[set[int]]:
    """Return units without what stays and what went before; each has its steps whole, or not."""
    results = {place: step for step in conversation.steps for place in step[1:]}
    heads = {step[0]: step for step in conversation.steps}
    gone: set[int] = set(conversation.protected)
    found: list[set[int]] = []
    for unit in units:
        whole = {
            member
            for place in unit
            if place not in results and conversation.entries[place].made is None
            for member in heads.get(place, (place,))
        }
        if left := whole - gone:
            found.append(left)
            gone |= left
    return found


def _without(conversation: Conversation, gone: set[int]) -> Conversation:
    """Return the conversation without some places, and with the note that says so.

    It stands behind everything that it speaks of; or at the head, where what stays would begin with
    an answer to nobody, which strict endpoints refuse.
    """
    notes = [place for place, entry in enumerate(conversation.entries) if entry.made == "note"]
    end = max(max(gone) + 1, *notes, 0)
    count = len(gone) + sum(_counted(conversation.entries[place]) for place in notes)
    left = conversation.without(gone)
    first = next((p for p, e in enumerate(left.entries) if _is_said(e)), len(left.entries))
    is_headless = first < len(left.entries) and left.entries[first].message.role != "user"
    return left.noting(note_text(count), first if is_headless else end - len(gone))


def _is_said(entry: Placed) -> bool:
    return entry.made != "note" and entry.message.role != "system"


def _counted(note: Placed) -> int:
    """Return how many messages a note says went."""
    found = _COUNT.search(note.message.text)
    return int(found.group(1)) if found else 0
