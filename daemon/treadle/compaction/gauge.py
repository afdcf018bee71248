"""How large the view of a thread is, measured once for each message and kept from call to call.

Owns when what was measured still holds: as long as a view has only grown, which the thread tells;
else it begins anew. And when a tokenizer counts: once a conversation may be near its bound, in a
worker thread. Refuses to know what becomes of the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from treadle.compaction.counting import Size, counted_by, size_of
from treadle.compaction.reckoning import Tally
from treadle.models.counting import MAX_CHARACTERS, CountText
from treadle.thread.history import Placed
from treadle.thread.memory import Mark
from treadle.thread.message import Message
from treadle.thread.thread import Thread

FindCounter: TypeAlias = Callable[[], CountText | None]
"""Returns what counts exactly, where it is at hand by now. Contract: neither blocks nor raises."""

# So many characters are counted exactly before one model call, the newest: some 0.4 s of work in a
# worker thread, once for a conversation that fills a window of half a million tokens. Those before
# them are taken by the approximation.
EXACT_CHARACTERS = 2_000_000


class Gauge:
    """Measures the view of one thread, again and again.

    Args:
        find: finds a tokenizer; without it all is by the approximation.
    """

    def __init__(self, find: FindCounter | None = None) -> None:
        self._find = find
        self._mark: Mark | None = None
        self._sizes: list[Size] = []
        self._tally = Tally()
        self._is_exact = False

    @property
    def is_exact(self) -> bool:
        """Whether a tokenizer has counted all that is known of, as far as it may cost."""
        return self._is_exact

    def tally(self, thread: Thread) -> Tally:
        """Return what is known now; what has not been measured yet, by the approximation."""
        mark, gained = thread.gained(self._mark)
        if gained or gained is None:
            entries = thread.placed() if gained is None else gained
            sizes = [size_of((entry.message,)) for entry in entries]
            self._take(mark, entries, sizes, is_anew=gained is None, is_exact=False)
        return self._tally

    def sizes(self, thread: Thread) -> tuple[Size, ...]:
        """Return how large each entry of the view is, likewise."""
        self.tally(thread)
        return tuple(self._sizes)

    async def count(self, thread: Thread) -> None:
        """Have a tokenizer count what it has not counted yet, if one is at hand by now.

        What was measured by the approximation meanwhile is counted too.
        """
        counter = self._find() if self._find is not None else None
        if counter is None:
            return
        before = self._mark
        mark, gained = thread.gained(before if self._is_exact else None)
        if gained is not None and not gained:
            return
        entries = thread.placed() if gained is None else gained
        sizes = await asyncio.to_thread(_counted, counter, [entry.message for entry in entries])
        # Whoever looked while this waited has measured the same, and a count of more than that
        # comes with the next call.
        if self._mark is before:
            self._take(mark, entries, sizes, is_anew=gained is None, is_exact=True)

    def _take(
        self,
        mark: Mark,
        entries: Sequence[Placed],
        sizes: Sequence[Size],
        *,
        is_anew: bool,
        is_exact: bool,
    ) -> None:
        if is_anew:
            self._sizes, self._tally = [], Tally()
        through = mark.compaction.through if mark.compaction else -1
        self._tally = self._tally.then(entries, sizes, through)
        self._sizes += sizes
        self._mark, self._is_exact = mark, is_exact


def _counted(count: CountText, messages: Sequence[Message]) -> list[Size]:
    """Measure messages, the newest exactly, as far as that may cost."""
    sizes: list[Size] = []
    left = EXACT_CHARACTERS
    for message in reversed(messages):
        size = counted_by(count, message) if left > 0 else size_of((message,))
        left -= min(size.characters, MAX_CHARACTERS)
        sizes.append(size)
    return sizes[::-1]
