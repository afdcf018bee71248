"""The sections of a summary: which they are, how they are read from a reply, how they are written.

Owns their order, that none is missing, and what goes where they are too long. Refuses to know who
wrote them and whether they are true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

IDENTIFIERS = "Identifiers"

# Each with what is to be said in it, as whoever writes it is told.
HINTS = {
    "Objective": "(what the person wants, and how they want it done)",
    "Decisions": "(what was decided or found out, and why)",
    "Work done": "(what was done and with what result, failures too)",
    IDENTIFIERS: "(names of files, ids, hashes, addresses, numbers: copied letter by letter, one "
    "a line, each with what it is)",
    "Outstanding": "(what is still to be done or answered)",
}
SECTIONS = tuple(HINTS)

# What an empty section says.
NOTHING = "Nothing."

# What stands where lines went that did not fit.
CUT = "(more was said here than fits)"

# Models put a heading in many ways; a word alone inside a sentence is none.
_HEADING = re.compile(
    r"(?P<marks>#{1,6}\s*)?(?:\d[.)]\s*)?(?P<bold>\*\*|__)?\s*"
    rf"(?P<name>{'|'.join(SECTIONS)})(?:\s*\(verbatim\))?\s*"
    r"(?P<end>:?\s*(?:\*\*|__)?\s*:?)\s*(?P<rest>.*)",
    re.IGNORECASE,
)
_BY_NAME = {name.lower(): name for name in SECTIONS}
_EMPTY = re.compile(r"[-*•\s(]*(?:nothing|none|n/?a|empty|-)(?: (?:yet|so far))?[\s).!]*", re.I)
_THOUGHT = "</think>"


@dataclass(frozen=True)
class Sections:
    """A summary's sections.

    Args:
        lines: what each says, line by line; one that was not written at all is not there.
    """

    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Sections:
        """Find the sections in a text; what stands before the first one is left out."""
        found: dict[str, dict[str, None]] = {}
        name = ""
        # Some endpoints let through what a model thought aloud.
        for line in text.rpartition(_THOUGHT)[2].splitlines():
            heading = _heading(line)
            if heading is not None:
                name, line = heading
                found.setdefault(name, {})
            line = line.strip()
            if name and line and not line.startswith("```"):
                # A line that is said twice says no more.
                found[name][line] = None
        return cls({name: _said(lines) for name, lines in found.items()})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said in any of them."""
        return not any(self.lines.values())

    def over(self, earlier: Sections) -> Sections:
        """Return these, with an earlier summary's where one was not written at all."""
        return Sections({**earlier.lines, **self.lines})

    def adding(self, name: str, lines: tuple[str, ...]) -> Sections:
        """Return these with more lines at a section's end."""
        return Sections({**self.lines, name: (*self.lines.get(name, ()), *lines)})

    def fitted(self, characters: int) -> Sections:
        """Return these with the ends of the longest ones gone, until all is short enough."""
        left = {name: list(self.lines.get(name, ())) for name in SECTIONS}
        sizes = {name: sum(len(line) + 1 for line in lines) for name, lines in left.items()}
        over = len(self.text) - characters
        cut: set[str] = set()
        while over > 0 and left[name := max(sizes, key=sizes.__getitem__)]:
            # The first time that something goes, the words that say so come.
            over += 0 if name in cut else len(CUT) + 1
            cut.add(name)
            line = left[name].pop()
            rest = line[: max(0, len(line) - over)].rpartition(" ")[0]
            left[name] += [rest] if rest else []
            gone = len(line) - len(rest) if rest else len(line) + 1
            sizes[name] -= gone
            over -= gone
        return Sections({name: (*left[name], *((CUT,) if name in cut else ())) for name in left})

    @property
    def text(self) -> str:
        """All of them in their order; an empty one says so."""
        return "\n".join(
            "\n".join((f"## {name}", *(self.lines.get(name) or (NOTHING,)))) for name in SECTIONS
        )


def fitted(summary: str, characters: int) -> str:
    """Return a summary that is short enough, whoever wrote it, with sections or without."""
    sections = Sections.read(summary)
    if len(summary) <= characters:
        return summary
    return summary[:characters] if sections.is_empty else sections.fitted(characters).text


def _heading(line: str) -> tuple[str, str] | None:
    """Return which section a line begins, and what it says of it already."""
    # Without runs of spaces, so that no line takes long to look at.
    found = _HEADING.fullmatch(" ".join(line.split()).lstrip(" >|"))
    if found is None:
        return None
    is_set_off = found["marks"] or found["bold"] or ":" in found["end"]
    if found["rest"] and not is_set_off:
        return None
    return _BY_NAME[found["name"].lower()], found["rest"]


def _said(lines: Iterable[str]) -> tuple[str, ...]:
    """Return what is said in some lines; a model may well repeat what it was told to write."""
    ours = (CUT, *HINTS.values())
    return tuple(line for line in lines if line not in ours and not _EMPTY.fullmatch(line))
