"""A look at a thread: page by page as it was said, or as a model sees it.

Owns what is read of a file for that; a page costs no more memory than its messages. A look at an
open thread is a snapshot, which what is said later does not change. Takes no lock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from treadle.thread.history import History, Placed
from treadle.thread.message import Message
from treadle.thread.repair import view
from treadle.thread.replay import BYTE_ORDER_MARK, UNREADABLE, Loaded, Numbers, decode, opened, skim
from treadle.thread.resume import resume


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a thread.

    Args:
        messages: in order.
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
        messages: in order.
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
            limit: how many messages.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        if self.is_whole or self._is_in_memory(start) or self.path is None:
            first = bisect_left(self.ordinals, start)
            pairs = zip(self.ordinals[first:], self.messages[first : first + limit], strict=False)
            return _page(self.history, pairs, self.ordinals, first + limit)
        return _page_of(self.path, start, limit)

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
            limit: how many messages.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        if self.is_whole or self.path is None or self._is_in_memory(_last(self.ordinals, number)):
            return self.page(_last(self.ordinals, number), limit)
        return _last_page_of(self.path, number, limit)

    def view_page(self, start: ViewPlace, limit: int) -> ViewPage:
        """Return a part of what would be sent to a model; it may block.

        Args:
            start: where to begin.
            limit: how many messages.

        Raises:
            ThreadUnreadable: the file cannot be opened.
        """
        view = self.view()
        return _view_page(view, _index_of(view, start), limit)

    def last_view_page(self, number: int, limit: int) -> ViewPage:
        """Return the first of the newest messages that would be sent to a model; it may block.

        Args:
            number: how many are the newest.
            limit: how many messages.

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
    end = start + limit
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


def _last_page_of(path: Path, number: int, limit: int) -> Page:
    found = skim(path)
    first = max(0, len(found.ordinals) - number)
    return _page(found.history, _lines(path, found, first, limit), found.ordinals, first + limit)


def _page_of(path: Path, start: int, limit: int) -> Page:
    """Find a page's lines, and decode those alone."""
    found = skim(path)
    first = bisect_left(found.ordinals, start)
    return _page(found.history, _lines(path, found, first, limit), found.ordinals, first + limit)


def _lines(path: Path, found: Loaded, first: int, limit: int) -> Iterator[tuple[int, Message]]:
    try:
        with opened(path) as file:
            for index in range(first, min(first + limit, len(found.ordinals))):
                file.seek(found.offsets[index])
                line = file.readline().removeprefix(BYTE_ORDER_MARK)
                try:
                    message = decode(line)
                except UNREADABLE:
                    continue
                if isinstance(message, Message):
                    yield found.ordinals[index], message
    except FileNotFoundError:
        # It was deleted while we looked.
        return


def _page(
    history: History, messages: Iterable[tuple[int, Message]], ordinals: Numbers, end: int
) -> Page:
    """Make a page whose next one starts at the index `end` of the ordinals."""
    next_start = ordinals[end] if end < len(ordinals) else None
    return Page(list(history.place(messages)), next_start)
