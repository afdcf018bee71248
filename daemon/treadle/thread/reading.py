"""A look at a thread: page by page as it was said, or as a model sees it.

Owns what is read of a file for that; a page costs no more memory than its messages. A look at an
open thread is a snapshot, which what is said later does not change. Takes no lock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from treadle.thread.history import History, Placed
from treadle.thread.index import Index
from treadle.thread.lines import BYTE_ORDER_MARK, LONGEST_LINE_BYTES, UNREADABLE, decode, opened
from treadle.thread.loaded import Numbers
from treadle.thread.message import Message, encode_line
from treadle.thread.repair import view
from treadle.thread.resume import resume

# A page ends early when its messages, as they are stored, would be more than this. Whoever reads
# has a page of any conversation at once, and a large one costs several pages.
PAGE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a thread.

    Args:
        messages: in order: as many as were asked for, or those that `PAGE_BYTES` hold, or one.
        next_start: where the next page starts; None where nothing follows.
    """

    messages: list[Placed]
    next_start: int | None = None


class ViewPlace(NamedTuple):
    """A place in a model's view that stays right while the view changes before and behind it.

    It is behind the message of an ordinal and `more` messages that have none and follow it.
    """

    ordinal: int = -1
    more: int = 0


@dataclass(frozen=True, slots=True)
class ViewPage:
    """A part of what is sent to a model.

    Args:
        messages: in order: as many as were asked for, or those that `PAGE_BYTES` hold, or one.
        next_start: where the next page starts; None where nothing follows.
    """

    messages: list[Placed]
    next_start: ViewPlace | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a thread at one moment.

    Args:
        path: its file; None where there is none.
        history: which messages the conversation holds.
        messages: those in memory.
        ordinals: theirs.
        is_whole: there are no others.
    """

    path: Path | None
    history: History
    messages: list[Message]
    ordinals: Numbers
    is_whole: bool

    @classmethod
    def of_file(cls, path: Path) -> Reading:
        """Look at a file that nobody here has open; what is needed of it is read when it is.

        Args:
            path: the file.
        """
        return cls(path, History(), [], array("q"), is_whole=False)

    def page(self, start: int, limit: int) -> Page:
        """Return what was said, rewound and compacted messages included; it may block.

        Args:
            start: the ordinal to begin with.
            limit: how many messages at most.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        if self.is_whole or self._is_in_memory(start) or self.path is None:
            first = bisect_left(self.ordinals, start)
            messages = _fitting(self.messages[first : first + limit])
            return _page(self.history, self.ordinals, first, list(messages))
        return _page_of(self.path, lambda ordinals: bisect_left(ordinals, start), limit)

    def view(self) -> list[Placed]:
        """Return what would be sent to a model; it may block.

        A message that was changed to make the whole valid has no ordinal.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        if self.messages or self.is_whole or self.path is None:
            return valid_view(self.history, zip(self.ordinals, self.messages, strict=True))
        loaded = resume(self.path)
        return valid_view(loaded.history, loaded.numbered())

    def last_page(self, number: int, limit: int) -> Page:
        """Return the first of the newest messages; it may block.

        Args:
            number: how many are the newest; further pages have those beyond the limit.
            limit: how many messages at most.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        if self.is_whole or self.path is None or self._is_in_memory(_last(self.ordinals, number)):
            return self.page(_last(self.ordinals, number), limit)
        return _page_of(self.path, lambda ordinals: max(0, len(ordinals) - number), limit)

    def view_page(self, start: ViewPlace, limit: int) -> ViewPage:
        """Return a part of what would be sent to a model; it may block.

        Args:
            start: where to begin.
            limit: how many messages at most.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        view = self.view()
        return _view_page(view, _index_of(view, start), limit)

    def last_view_page(self, number: int, limit: int) -> ViewPage:
        """Return the first of the newest messages that would be sent to a model; it may block.

        Args:
            number: how many are the newest.
            limit: how many messages at most.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        view = self.view()
        return _view_page(view, max(0, len(view) - number), limit)

    def _is_in_memory(self, start: int) -> bool:
        """Tell whether everything from an ordinal on is there: what no compaction gave up."""
        compaction = self.history.compaction
        return compaction is not None and start > compaction.through


def valid_view(history: History, messages: Iterable[tuple[int, Message]]) -> list[Placed]:
    """Return a conversation as it may be sent to any provider."""
    placed = history.view(messages)
    known = {id(one.message): one for one in placed}
    return [known.get(id(message)) or Placed(message) for message in view(_said(placed))]


def _said(placed: Iterable[Placed]) -> Iterator[Message]:
    return (one.message for one in placed)


def _view_page(view: list[Placed], start: int, limit: int) -> ViewPage:
    end = start + len(list(_fitting(_said(view[start : start + limit]))))
    return ViewPage(view[start:end], _place_behind(view[:end]) if end < len(view) else None)


def _place_behind(view: list[Placed]) -> ViewPlace:
    """Tell the place at the end of the beginning of a view."""
    more = 0
    for placed in reversed(view):
        if placed.ordinal is not None:
            return ViewPlace(placed.ordinal, more)
        more += 1
    return ViewPlace(more=more)


def _index_of(view: list[Placed], start: ViewPlace) -> int:
    """Find a place; where its message is not in the view any more, what would follow it."""
    index = 0
    while index < len(view):
        ordinal = view[index].ordinal
        if ordinal is not None and ordinal > start.ordinal:
            break
        index += 1
    # What has no ordinal belongs to the message that it follows.
    first = index
    while first and view[first - 1].ordinal is None:
        first -= 1
    is_there = start.ordinal == -1 if first == 0 else view[first - 1].ordinal == start.ordinal
    return min(index, first + start.more) if is_there else index


def _last(ordinals: Numbers, number: int) -> int:
    """Return the ordinal with which the last `number` of them begin."""
    return ordinals[max(0, len(ordinals) - number)] if ordinals else 0


# Pages of threads that nobody here has open come one after the other.
_index = Index()


def _page_of(path: Path, first_of: Callable[[Numbers], int], limit: int) -> Page:
    """Find a page's lines, and decode those alone.

    Args:
        path: the thread's file.
        first_of: tells where among the ordinals the page begins.
        limit: how many messages at most.
    """
    try:
        with opened(path) as file:
            found = _index.find(path, file)
            first = first_of(found.ordinals)
            lines = _lines(file, found.offsets[first : first + limit])
            return _page(found.history, found.ordinals, first, list(lines))
    except FileNotFoundError:
        # It was deleted while we looked.
        return Page([])


def _lines(file: BinaryIO, offsets: Numbers) -> Iterator[Message | None]:
    """Yield the messages of as many lines as fit, and of one at least; None for a bad one."""
    left = PAGE_BYTES
    for index, offset in enumerate(offsets):
        file.seek(offset)
        line = file.readline(left if index else LONGEST_LINE_BYTES)
        left -= len(line)
        if index and left <= 0 and not line.endswith(b"\n"):
            return
        yield _decoded(line)
        if left <= 0:
            return


def _decoded(line: bytes) -> Message | None:
    try:
        decoded = decode(line.removeprefix(BYTE_ORDER_MARK))
    except UNREADABLE:
        return None
    return decoded if isinstance(decoded, Message) else None


def _fitting(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield as many of the messages as fit into a page, and one at least."""
    left = PAGE_BYTES
    for index, message in enumerate(messages):
        left -= len(encode_line(message))
        if index and left < 0:
            return
        yield message


def _page(
    history: History, ordinals: Numbers, first: int, messages: Sequence[Message | None]
) -> Page:
    """Make a page of the messages from the index `first` of the ordinals on."""
    end = first + len(messages)
    said = [
        (ordinals[index], message)
        for index, message in enumerate(messages, first)
        if message is not None
    ]
    return Page(list(history.place(said)), ordinals[end] if end < len(ordinals) else None)
