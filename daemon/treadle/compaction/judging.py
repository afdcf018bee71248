"""Whether a reply is a summary, and the summary that is made of it.

Owns what is refused, what is mended and what is added. Refuses to know who replied and who asks
again. What it gives is never longer than allowed.

| a reply that                              | is                                               |
|-------------------------------------------|--------------------------------------------------|
| has none of the headings, or nothing      | refused: it did something else                   |
| is several times too long                 | refused: it does not stop                        |
| repeats the conversation                  | refused: that is there already                   |
| is a little too long                      | cut where it says most                           |
| leaves out a heading                      | mended: the earlier summary's stands             |
| loses an identifier that a person wrote   | mended, as far as there is room                  |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.compaction.fence import MORE, is_tagged
from treadle.compaction.identifiers import lost
from treadle.compaction.sections import CUT, IDENTIFIERS, SECTIONS, Sections
from treadle.compaction.summariser import NoSummary
from treadle.thread.message import Message, clean

# A model counts words badly; one that says this much more does not know where to stop.
TIMES_TOO_LONG = 3

# A shorter reply may well be a quotation; it costs little.
LEAST_COPIED_CHARACTERS = 400

# A piece of a reply that stands so in the conversation was copied, not written.
COPIED_CHARACTERS = 60

# From this part on a reply is copied: a good one quotes, but says most in its own words.
COPIED_PART = 0.5

# The part of a summary that may be identifiers which it lost.
MENDED_PART = 1 / 3


def judged(
    reply: str,
    *,
    chunk: Sequence[str],
    persons: Iterable[Message],
    earlier: str,
    most: int,
) -> str:
    """Return the summary that a reply is.

    Args:
        reply: what the summariser said.
        chunk: the lines of the conversation that it was given.
        persons: what persons wrote of what is given up now.
        earlier: the summary that this one takes the place of.
        most: how many characters it may have.

    Raises:
        NoSummary: it is none; the message says why, and can be told to the summariser.
    """
    reply = clean(reply)
    if not reply.strip():
        raise NoSummary("it said nothing")
    if len(reply) > most * TIMES_TOO_LONG:
        raise NoSummary("it is far too long")
    sections = Sections.read(reply)
    if sections.is_empty:
        raise NoSummary("it has none of the five headings with anything under it")
    if is_tagged(reply) or _is_copied(sections, chunk):
        raise NoSummary("it repeats the conversation instead of summing it up")
    before = Sections.read(earlier)
    whole = sections.over(before).fitted(most)
    named = before.lines.get(IDENTIFIERS, ())
    added = lost(persons, named, whole.text, int(most * MENDED_PART))
    if not added:
        return whole.text
    # What is cut off now may hold others; those that were lost before come first.
    room = most - sum(len(line) + 1 for line in added)
    return whole.fitted(room).adding(IDENTIFIERS, tuple(added)).text


def _is_copied(sections: Sections, chunk: Sequence[str]) -> bool:
    """Whether most of what it says, but for identifiers, stands in the conversation like that."""
    told = _joined(
        line
        for name in SECTIONS
        if name != IDENTIFIERS
        for line in sections.lines.get(name, ())
        if line != CUT
    )
    if len(told) < LEAST_COPIED_CHARACTERS:
        return False
    given = _joined(line[len(MORE) :] for line in chunk)
    starts = range(0, len(told) - COPIED_CHARACTERS + 1, COPIED_CHARACTERS)
    copied = sum(told[start : start + COPIED_CHARACTERS] in given for start in starts)
    return copied > len(starts) * COPIED_PART


def _joined(lines: Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())
