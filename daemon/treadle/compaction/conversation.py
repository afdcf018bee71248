"""A conversation as a model sees it, and what may be given up of it.

Owns what a step is, what the task is, and what is never given up. Every change makes a new
conversation, so that a strategy that comes to nothing has changed nothing. Pure: refuses to know
threads' files, models and windows.

A *step* is an assistant's message with the results of its calls; it is whole or not at all.
The *task* is the newest message that a person wrote; what a summary or a note says is nobody's.
Sizes are measured once for each message, and go along from one conversation to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from treadle.compaction.counting import Size, attachments_of, size_of, total
from treadle.thread.history import NOTE_MARK, SUMMARY_MARK, Placed
from treadle.thread.message import Message, clean
from treadle.thread.records import CompactedRecord, Note, Range

# Steps that stay as they are, so that a model never loses what it is in the middle of.
KEEP_STEPS = 2


@dataclass(frozen=True)
class Conversation:
    """What a model sees below its instructions.

    Args:
        entries: its messages where they stand in the thread, and what compactions made.
        rewritten: the texts that stand in the place of messages' own, by ordinal.
        keep_steps: how many of the newest steps are never given up; see `newest`.
        measured: the sizes of the messages, where they are known.
    """

    entries: tuple[Placed, ...]
    rewritten: Mapping[int, str]
    keep_steps: int = KEEP_STEPS
    measured: tuple[Size, ...] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        entries: Sequence[Placed],
        compaction: CompactedRecord | None,
        keep_steps: int = KEEP_STEPS,
        measured: tuple[Size, ...] | None = None,
    ) -> Conversation:
        """Take what `History.view` shows, the compaction that it shows it by, and their sizes."""
        if compaction is None or not compaction.rewritten:
            return cls(tuple(entries), {}, keep_steps, measured)
        there = {entry.ordinal for entry in entries if (entry.ordinal or 0) <= compaction.through}
        rewritten = {o: text for o, text in compaction.rewritten.items() if o in there}
        return cls(tuple(entries), rewritten, keep_steps, measured)

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """How large each of its messages is."""
        if self.measured is not None:
            return self.measured
        return tuple(size_of((entry.message,)) for entry in self.entries)

    @cached_property
    def size(self) -> Size:
        """How large it is."""
        return total(self.sizes)

    @cached_property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """Where its steps are: the places in `entries` of each.

        A result belongs to the last assistant's message before it, as in what is sent to a model,
        even where a person's message came between.
        """
        found: list[list[int]] = []
        for place, entry in enumerate(self.entries):
            role = entry.message.role
            if role == "assistant" and (entry.message.tool_calls or says_something(entry)):
                found.append([place])
            elif role == "tool" and found:
                found[-1].append(place)
        return tuple(map(tuple, found))

    @cached_property
    def task(self) -> int | None:
        """The place of the newest message that a person wrote; one that says nothing is none."""
        for place in range(len(self.entries) - 1, -1, -1):
            if is_persons(self.entries[place]) and says_something(self.entries[place]):
                return place
        return None

    @cached_property
    def newest(self) -> tuple[tuple[int, ...], ...]:
        """The steps that are never given up.

        Results that the model has not answered yet are among them, however few are wanted: given
        up unseen they would be asked for again, without end.
        """
        is_answered = not self.entries or self.entries[-1].message.role != "tool"
        count = self.keep_steps if is_answered else max(self.keep_steps, 1)
        return self.steps[-count:] if count else ()

    @cached_property
    def protected(self) -> frozenset[int]:
        """The places that are never given up: instructions at the head, the task, newest steps."""
        kept = {place for step in self.newest for place in step}
        for place, entry in enumerate(self.entries):
            if entry.made is None and entry.message.role != "system":
                break
            if entry.made is None:
                kept.add(place)
        return frozenset(kept | ({self.task} if self.task is not None else set()))

    @property
    def summary(self) -> str:
        """What a summary says of what was before; nothing where there is none."""
        return "".join(
            entry.message.text.removeprefix(SUMMARY_MARK)
            for entry in self.entries
            if entry.made == "summary"
        )

    def rewrite(self, texts: Mapping[int, str]) -> Conversation:
        """Put texts in the place of messages' own.

        Args:
            texts: by place.
        """
        entries, sizes = list(self.entries), list(self.sizes)
        rewritten = dict(self.rewritten)
        for place, text in texts.items():
            entry = entries[place]
            assert entry.ordinal is not None, "what a compaction made is not rewritten"
            message = msgspec.structs.replace(entry.message, content=text)
            entries[place] = Placed(message, entry.ordinal)
            sizes[place] = size_of((message,))
            rewritten[entry.ordinal] = text
        return replace(self, entries=tuple(entries), rewritten=rewritten, measured=tuple(sizes))

    def beginning_as(self, other: Conversation, end: int) -> Conversation:
        """Take another one's entries below a place.

        Args:
            other: this conversation with texts rewritten.
            end: the first place that stays as it is here.
        """
        there = (entry.ordinal for entry in reversed(self.entries[:end]))
        last = next((ordinal for ordinal in there if ordinal is not None), -1)
        texts = {o: text for o, text in other.rewritten.items() if o <= last}
        return replace(
            self,
            entries=other.entries[:end] + self.entries[end:],
            rewritten={**self.rewritten, **texts},
            measured=other.sizes[:end] + self.sizes[end:],
        )

    def without(self, places: Iterable[int]) -> Conversation:
        """Give up what stands at some places."""
        places = frozenset(places)
        if not places:
            return self
        left = [place for place in range(len(self.entries)) if place not in places]
        gone = {self.entries[place].ordinal for place in places}
        return replace(
            self,
            entries=tuple([self.entries[place] for place in left]),
            rewritten={o: text for o, text in self.rewritten.items() if o not in gone},
            measured=tuple([self.sizes[place] for place in left]),
        )

    def noting(self, text: str, before: int) -> Conversation:
        """Put the one note before the entry at a place; another one goes.

        Args:
            text: what it says, without its mark.
            before: a place in `entries`; their number for the end. It is behind the summary.
        """
        note = Placed(Message("user", NOTE_MARK + clean(text)), None, "note")
        head = sum(entry.made == "summary" for entry in self.entries)
        gone = [place for place, entry in enumerate(self.entries) if entry.made == "note"]
        place = max(before, head) - sum(place < before for place in gone)
        return self.without(gone)._with(place, note)

    def summarised(self, text: str) -> Conversation:
        """Put the one summary at the head; another one goes, which is folded into it."""
        summary = Placed(Message("user", SUMMARY_MARK + clean(text)), None, "summary")
        gone = [place for place, entry in enumerate(self.entries) if entry.made == "summary"]
        return self.without(gone)._with(0, summary)

    def record(self, id_: str, last: int) -> CompactedRecord:
        """Return what makes a thread show this conversation.

        Args:
            id_: the compaction's name.
            last: the ordinal at which the thread's conversation ends.
        """
        return CompactedRecord(
            id=id_,
            through=last,
            keep=self._kept(),
            rewritten=dict(self.rewritten),
            notes=self._notes(last),
            summary=self.summary,
        )

    def ordinals(self) -> frozenset[int]:
        """Return the ordinals that it shows, rewritten or not."""
        return frozenset(entry.ordinal for entry in self.entries if entry.ordinal is not None)

    def _with(self, place: int, entry: Placed) -> Conversation:
        """Put what a compaction made at a place."""
        return replace(
            self,
            entries=(*self.entries[:place], entry, *self.entries[place:]),
            measured=(*self.sizes[:place], size_of((entry.message,)), *self.sizes[place:]),
        )

    def _kept(self) -> list[Range]:
        kept: list[Range] = []
        for ordinal in sorted(self.ordinals()):
            if kept and kept[-1][1] == ordinal - 1:
                kept[-1] = (kept[-1][0], ordinal)
            else:
                kept.append((ordinal, ordinal))
        return kept

    def _notes(self, last: int) -> list[Note]:
        found: list[Note] = []
        before = last + 1
        for entry in reversed(self.entries):
            if entry.ordinal is not None:
                before = entry.ordinal
            elif entry.made == "note":
                found.append(Note(before, entry.message.text.removeprefix(NOTE_MARK)))
        return found[::-1]


def is_persons(entry: Placed) -> bool:
    """Whether a person wrote it: told by where it comes from, never by what it says."""
    return entry.message.role == "user" and entry.made is None


def says_something(entry: Placed) -> bool:
    """Whether there is anything in it but blanks; else it is not sent to a model."""
    return bool(entry.message.text.strip()) or attachments_of(entry.message) > 0


Measure = Callable[[Conversation], int]
"""Tells how many tokens a conversation has. Contract: pure; never less for more."""
