"""A conversation as a model sees it, and what may be given up of it.

Owns what a step is, what the task is, and what is never given up. Every change makes a new
conversation, so that a strategy that comes to nothing has changed nothing. Pure: refuses to know
threads' files, models and windows.

A *step* is an assistant's message with the results of its calls; it is whole or not at all.
The *task* is the newest message that a person wrote; what a summary or a note says is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from treadle.compaction.counting import Size, size_of
from treadle.thread.history import NOTE_MARK, SUMMARY_MARK, Placed
from treadle.thread.message import Message
from treadle.thread.records import CompactedRecord, Note, Range

# Steps that stay as they are, so that a model never loses what it is in the middle of.
KEEP_STEPS = 2


@dataclass(frozen=True)
class Conversation:
    """What a model sees below its instructions.

    Args:
        entries: its messages where they stand in the thread, and what compactions made.
        rewritten: the texts that stand in the place of messages' own, by ordinal.
        keep_steps: how many of the newest steps are never touched.
    """

    entries: tuple[Placed, ...]
    rewritten: Mapping[int, str]
    keep_steps: int = KEEP_STEPS

    @classmethod
    def of(
        cls,
        entries: Sequence[Placed],
        compaction: CompactedRecord | None,
        keep_steps: int = KEEP_STEPS,
    ) -> Conversation:
        """Take what `History.view` shows, and the compaction that it shows it by."""
        ordinals = {entry.ordinal for entry in entries}
        texts = compaction.rewritten if compaction else {}
        kept = {ordinal: text for ordinal, text in texts.items() if ordinal in ordinals}
        return cls(tuple(entries), kept, keep_steps)

    @cached_property
    def size(self) -> Size:
        """How large it is."""
        return size_of(entry.message for entry in self.entries)

    @cached_property
    def steps(self) -> tuple[range, ...]:
        """Where its steps are: ranges of places in `entries`."""
        found: list[range] = []
        for place, entry in enumerate(self.entries):
            if entry.message.role == "assistant":
                found.append(range(place, place + 1))
            elif entry.message.role == "tool" and found and found[-1].stop == place:
                found[-1] = range(found[-1].start, place + 1)
        return tuple(found)

    @cached_property
    def task(self) -> int | None:
        """The place of the newest message that a person wrote."""
        places = [place for place, entry in enumerate(self.entries) if is_persons(entry)]
        return places[-1] if places else None

    @cached_property
    def protected(self) -> frozenset[int]:
        """The places that are never given up: the task, and the newest steps."""
        newest = self.steps[len(self.steps) - self.keep_steps :] if self.keep_steps else ()
        kept = {place for step in newest for place in step}
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
        entries = list(self.entries)
        rewritten = dict(self.rewritten)
        for place, text in texts.items():
            entry = entries[place]
            assert entry.ordinal is not None, "what a compaction made is not rewritten"
            message = msgspec.structs.replace(entry.message, content=text)
            entries[place] = replace(entry, message=message)
            rewritten[entry.ordinal] = text
        return replace(self, entries=tuple(entries), rewritten=rewritten)

    def without(self, places: Collection[int]) -> Conversation:
        """Give up what stands at some places."""
        return self._with([e for place, e in enumerate(self.entries) if place not in places])

    def noting(self, text: str, before: int) -> Conversation:
        """Put the one note before the entry at a place; another one goes.

        Args:
            text: what it says, without its mark.
            before: a place in `entries`; their number for the end.
        """
        note = Placed(Message("user", NOTE_MARK + text), None, "note")
        entries = [*self.entries[:before], note, *self.entries[before:]]
        return self._with([e for e in entries if e.made != "note" or e is note])

    def summarised(self, text: str) -> Conversation:
        """Put the one summary at the head; another one goes, which is folded into it."""
        summary = Placed(Message("user", SUMMARY_MARK + text), None, "summary")
        return self._with([summary, *(e for e in self.entries if e.made != "summary")])

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

    def _with(self, entries: Sequence[Placed]) -> Conversation:
        there = {entry.ordinal for entry in entries}
        rewritten = {o: text for o, text in self.rewritten.items() if o in there}
        return replace(self, entries=tuple(entries), rewritten=rewritten)

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


Measure = Callable[[Conversation], int]
"""Tells how many tokens a conversation has. Contract: pure; never less for more."""
