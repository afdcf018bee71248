"""The part of a conversation that a summary may take the place of, as a summariser reads it.

Owns which part that is, how it looks, and that it is handed out in chunks of any size. Refuses to
know how large they should be and what becomes of them.

It is everything before the newest steps but the task, which is shown in its place so that what was
done for it makes sense, and never given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from treadle.compaction.conversation import Conversation, is_persons
from treadle.compaction.counting import line_of, tokens_of
from treadle.compaction.fence import signed
from treadle.models.attachments import in_words
from treadle.thread.message import Message

# The task stays where it is; its summariser needs to know what it is about.
TASK_CHARACTERS = 1_000

# Where all is more than can be read, the longest messages are shortened, but none below this.
LEAST_CHARACTERS = 400


@dataclass(frozen=True)
class Unit:
    """Messages that go together or stay together.

    Args:
        places: where they are in the conversation; none for what is shown and not given up.
        texts: what is shown of each.
    """

    places: frozenset[int]
    texts: tuple[str, ...]

    def lines(self, most: int) -> list[str]:
        """Return its lines, each message's text at most so long."""
        return [line for text in self.texts for line in signed(shortened(text, most))]


@dataclass(frozen=True)
class Chunk:
    """What is read at once.

    Args:
        lines: what it shows.
        end: the line before which it ends, among all.
        characters: how long it is.
    """

    lines: list[str]
    end: int
    characters: int


@dataclass
class Transcript:
    """What a summary may take the place of, and how far it is read.

    Args:
        conversation: what it is of.
    """

    conversation: Conversation
    _lines: list[str] = field(default_factory=list)
    # Up to which line each unit goes.
    _ends: list[int] = field(default_factory=list)
    _units: list[Unit] = field(default_factory=list)
    _position: int = 0

    def __post_init__(self) -> None:
        self._units = list(_units(self.conversation))

    def bound(self, each: int, most: int) -> None:
        """Say how much of it can be read: of each message, and of all; do so before `next`.

        Args:
            each: characters of a message.
            most: characters in all, as far as short messages allow it.
        """
        all_lines = _bounded(self._units, each, most)
        self._lines = [line for lines in all_lines for line in lines]
        self._ends = list(accumulate(map(len, all_lines)))

    @property
    def places(self) -> frozenset[int]:
        """Everything that may be given up."""
        return frozenset(place for unit in self._units for place in unit.places)

    @property
    def covered(self) -> frozenset[int]:
        """What has been read to its end."""
        return self._between(0, self._position)

    def tokens(self, places: frozenset[int]) -> int:
        """Measure what stands at some places."""
        entries = self.conversation.entries
        return tokens_of(entries[place].message for place in sorted(places))

    def next(self, characters: int) -> Chunk | None:
        """Return what comes next and is not longer; None where all has been read.

        Contract: at least a line, however few characters.
        """
        end = self._position
        length = 0
        while end < len(self._lines) and (
            end == self._position or length + len(self._lines[end]) < characters
        ):
            length += len(self._lines[end]) + 1
            end += 1
        lines = self._lines[self._position : end]
        return Chunk(lines, end, length) if lines else None

    def messages_of(self, chunk: Chunk) -> list[Message]:
        """Return what persons wrote that is given up with a chunk."""
        entries = self.conversation.entries
        ended = sorted(self._between(self._position, chunk.end))
        return [entries[place].message for place in ended if is_persons(entries[place])]

    def read(self, chunk: Chunk) -> None:
        """Go on behind a chunk."""
        self._position = chunk.end

    def _between(self, first: int, last: int) -> frozenset[int]:
        """Return the places of the units that end behind one line and not behind another."""
        units = zip(self._units, self._ends, strict=True)
        return frozenset(p for unit, end in units if first < end <= last for p in unit.places)


def shortened(text: str, most: int) -> str:
    """Return a text without its middle where it is too long; the gap is said."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n(… {len(text) - 2 * half:,} characters are left out …)\n{text[-half:]}"


def _units(conversation: Conversation) -> Iterator[Unit]:
    entries = conversation.entries
    step_of = {place: step for step in conversation.steps for place in step}
    end = min((place for step in conversation.newest for place in step), default=len(entries))
    for place, entry in enumerate(entries[:end]):
        together = step_of.get(place, (place,))
        if place == conversation.task:
            said = shortened(_shown(entry.message), TASK_CHARACTERS)
            yield Unit(frozenset(), (f"(this stays) {said}",))
        elif entry.made is None and place == together[0] and place not in conversation.protected:
            shown = tuple(_shown(entries[each].message) for each in together)
            yield Unit(frozenset(together), shown)


def _shown(message: Message) -> str:
    """Return a message as it is counted, with its attachments named."""
    return line_of(msgspec.structs.replace(message, content=in_words(message.content)))


def _bounded(units: list[Unit], each: int, most: int) -> list[list[str]]:
    """Return the units' lines, with the longest messages shortened until all is short enough."""
    while True:
        all_lines = [unit.lines(each) for unit in units]
        length = sum(len(line) + 1 for lines in all_lines for line in lines)
        if length <= most or each <= LEAST_CHARACTERS:
            return all_lines
        each = max(LEAST_CHARACTERS, each // 2)
