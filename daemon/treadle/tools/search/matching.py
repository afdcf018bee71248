"""Regular expressions on text, line by line, bounded in time and memory.

Owns the dialect: what `ripgrep` takes, as far as a pattern does not need more, and look-around
beside it. A pattern is never matched across lines.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from treadle.tools.tool import ToolError

# Nobody writes longer ones; they are compiled in memory of many times their size.
PATTERN_CHARACTERS = 2000

# What numbers in braces may multiply to: `a{1000}{1000}{1000}` would take all memory there is.
_REPEATS = 100_000

# Text is looked through in pieces of this size first, fast; a piece is what a match may span.
_PIECE_CHARACTERS = 64 * 1024

# A pattern that takes longer for one piece is tried line by line, where it may be quick.
_PIECE_SECONDS = 0.5

# The beginning of a longer line, minified code for example, is searched.
_LINE_CHARACTERS = 1024 * 1024

# Braces that repeat, and those that only look like it: what is no number stands for itself.
_BRACES = re.compile(r"(\\[pPNxugk]\{[^}]*\}|\\.|\{\d+(?:,\d*)?\}|\{,\d+\})|\{", re.DOTALL)
# The numbers of one that repeats; a missing one counts as none.
_NUMBERS = re.compile(r"\{(\d*),?(\d*)\}")

# Kinds of groups that other programs know too; recursion, for one, is not among them.
_ODD_GROUP = re.compile(
    r"(?<!\\)\((?:\?(?!(?:[:=!>]|<[=!]|P?<[A-Za-z_]\w*>|P=|[imsx-]+[:)]))|\*[A-Z])"
)

# What means something else in a piece than in a line.
_LINE_BOUND = re.compile(r"\\[AzZG]|\(\?")

# What regular expressions of different makes agree on: neither other escapes, nor set operations,
# nor groups with flags.
_UNLIKE = re.compile(r"\\(?![wWdDsSbB]|[^A-Za-z0-9])|\[[^\]]*(?:\[|&&|--|~~|\|\|)|\(\?")


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches: its number, from 1, and where in it the match begins."""

    line: int
    column: int


class Pattern:
    """A pattern, ready to search with; `compiled` makes one."""

    def __init__(self, source: str, single: Any, spanning: Any) -> None:
        self.source = source
        self._single = single
        self._spanning = spanning

    @property
    def is_common(self) -> bool:
        """Whether other programs take it to mean the same."""
        return not _UNLIKE.search(self.source)

    def hits(self, text: str, until: float) -> Iterator[Hit]:
        """Find the lines that match.

        Args:
            text: its lines end in line feeds.
            until: when to give up, by the monotonic clock.

        Raises:
            TimeoutError: it is that late.
        """
        number, counted = 1, 0
        for start, end in self._lines(text, until):
            line = text[start : min(end, start + _LINE_CHARACTERS)]
            match = self._single.search(line, timeout=_left(until), concurrent=True)
            if match:
                number += text.count("\n", counted, start)
                counted = start
                yield Hit(number, match.start())

    def _lines(self, text: str, until: float) -> Iterator[tuple[int, int]]:
        """Yield where the lines lie that may match."""
        at = 0
        while at < len(text):
            piece_end = _line_end(text, min(at + _PIECE_CHARACTERS, len(text)))
            maybe = self._first(text, at, piece_end, until)
            if maybe is None:
                at = piece_end + 1
                continue
            start = max(at, text.rfind("\n", at, maybe) + 1)
            end = _line_end(text, maybe)
            if start == len(text):
                return
            yield start, end
            at = end + 1

    def _first(self, text: str, at: int, end: int, until: float) -> int | None:
        """Return where the first match in a piece may begin."""
        left = _left(until)
        if self._spanning is None or end - at > _LINE_CHARACTERS:
            return at
        try:
            match = self._spanning.search(
                text, at, end, timeout=min(left, _PIECE_SECONDS), concurrent=True
            )
        except TimeoutError:
            return at
        return None if match is None else match.start()


def compiled(pattern: str, *, ignore_case: bool) -> Pattern:
    """Compile a pattern.

    Raises:
        ToolError: it is none, or too costly.
    """
    import regex

    if "\n" in pattern:
        raise ToolError("The pattern holds a line feed, but one line at a time is searched.")
    source = _BRACES.sub(lambda found: found[1] or r"\{", pattern)
    if _ODD_GROUP.search(source):
        raise ToolError(f"The pattern {pattern!r} has a kind of group that is not supported.")
    if _repeats(source) > _REPEATS:
        raise ToolError(f"The pattern {pattern!r} repeats too much: use + or * for large numbers.")
    flags = regex.IGNORECASE if ignore_case else 0
    try:
        single = regex.compile(source, flags)
        spans = not _LINE_BOUND.search(source)
        spanning = regex.compile(source, flags | regex.MULTILINE) if spans else None
    except (regex.error, RecursionError, OverflowError) as error:
        raise ToolError(
            f"{pattern!r} is no regular expression: {error}. To find it as it stands, put a "
            "backslash before each of . * + ? ( ) [ ] { } | ^ $ \\."
        ) from None
    return Pattern(source, single, spanning)


def _repeats(source: str) -> int:
    product = 1
    for numbers in _NUMBERS.finditer(source):
        product *= max([1, *(int(number) for number in numbers.groups() if number)])
        if product > _REPEATS:
            break
    return product


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end == -1 else end


def _left(until: float) -> float:
    """Return the seconds that are left.

    Raises:
        TimeoutError: none are.
    """
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
