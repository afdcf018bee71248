"""Literal replacements in a text, and what to say where one does not fit.

Owns what matches: text as it is, whatever the line ends. Pure: it knows neither files nor tools'
arguments.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from treadle.sandbox.sandbox import READ_LIMIT_BYTES
from treadle.secrets import known
from treadle.tools.limits import cut_characters
from treadle.tools.tool import ToolError

# Places are counted up to here; whoever has more of them meant something else.
_COUNTED = 1000
# What is named of many places: enough to see which one was meant.
_NAMED_LINES = 10
# Lines that are compared with one that was not found; each costs some 50 µs.
_COMPARED_LINES = 3000
# What is quoted of a line: enough to recognise it.
_QUOTED_CHARACTERS = 200
# What is quoted of several, to be copied as they stand.
_QUOTED_PASSAGE_CHARACTERS = 1000
# How alike a line must be to be named: a name or two that differ, not another line.
_LIKENESS = 0.7

# What `read` puts before each line, and a model may copy along.
_NUMBERED = re.compile(r"\d+\t")


@dataclass(frozen=True, slots=True)
class Replacement:
    """One text in place of another, that occurs once or is replaced `everywhere`."""

    old: str
    new: str
    everywhere: bool = False


def replace_all(text: str, line_end: str, wanted: Sequence[Replacement], path: str) -> str:
    """Apply replacements in order, each to what the one before left.

    Args:
        text: with its own line ends, which all stay as they are.
        line_end: what lines that are put in end in; a carriage return where all others do.
        wanted: the replacements; their line ends do not count.
        path: what the errors call the text.

    Raises:
        ToolError: one does not fit; it says which, why and what to do.
    """
    for number, replacement in enumerate(wanted, 1):
        where = path if len(wanted) == 1 else f"{path}, edit {number} of {len(wanted)}"
        text = _replaced(text, line_end, replacement, where)
    return text


def _replaced(text: str, line_end: str, wanted: Replacement, where: str) -> str:
    """Apply one replacement.

    Raises:
        ToolError: it does not fit.
    """
    old, new = (each.replace("\r\n", "\n") for each in (wanted.old, wanted.new))
    if not old:
        raise ToolError(f"{where}: old is empty; give the text that is to be replaced.")
    if old == new:
        raise ToolError(f"{where}: old and new are the same; nothing was changed.")
    plain = text.replace("\r\n", "\n")
    count = plain.count(old)
    if not count:
        raise ToolError(f"{where}: old does not occur; nothing was changed. {_why_not(plain, old)}")
    starts = list(islice(_found(plain, old), _COUNTED + 1))
    if len(starts) > 1 and not wanted.everywhere:
        times = f"more than {_COUNTED}" if len(starts) > _COUNTED else f"{len(starts)}"
        raise ToolError(
            f"{where}: old occurs {times} times, {_lines_of(plain, starts)}. Take lines "
            "around it along until it occurs once, or set all; nothing was changed."
        )
    if len(text) + count * len(new) > READ_LIMIT_BYTES:
        raise ToolError(f"{where}: the file would be too large; nothing was changed.")
    if line_end == "\r\n" or len(plain) == len(text):
        return plain.replace(old, new).replace("\n", line_end)
    return _spliced(text, plain, old, new)


def _found(plain: str, old: str) -> Iterator[int]:
    """Yield where a text occurs, also where it overlaps itself."""
    at = plain.find(old)
    while at != -1:
        yield at
        at = plain.find(old, at + 1)


def _spliced(text: str, plain: str, old: str, new: str) -> str:
    """Replace what is found in the plain text where it stands in the text of mixed line ends."""
    # Where in the plain text a line feed has a carriage return before it in the other.
    found = (match.start() for match in re.finditer("\r\n", text))
    returns = [at - count for count, at in enumerate(found)]
    pieces: list[str] = []
    done, start = 0, plain.find(old)
    while start != -1:
        end = start + len(old)
        pieces += [text[done : start + bisect_left(returns, start)], new]
        done = end + bisect_left(returns, end)
        start = plain.find(old, end)
    return "".join([*pieces, text[done:]])


def _why_not(plain: str, old: str) -> str:
    """Say why a text may not have been found, and what to do."""
    lines, wanted = plain.split("\n"), old.strip("\n").split("\n")
    if "[secret " in old:
        return "It quotes the word that stands for a secret: leave that line out."
    if all(_NUMBERED.match(line) for line in wanted):
        return "Leave out the line numbers that read puts before each line."
    if at := _but_for_space(lines, wanted):
        shown = known().redact("\n".join(lines[at - 1 : at - 1 + len(wanted)]))
        return (
            f"What begins at line {at} differs from it in white space only; there it is:\n"
            f"{cut_characters(shown, _QUOTED_PASSAGE_CHARACTERS)}"
        )
    if near := _nearest_lines(lines, wanted):
        return f"The nearest is {near}. Read it again and copy it exactly."
    return "Nothing in it is like it. Read it again and copy the text exactly."


def _but_for_space(lines: list[str], wanted: list[str]) -> int:
    """Return the line, from 1, at which the wanted ones stand but for white space; 0 if nowhere."""
    bare, bare_lines = (["".join(line.split()) for line in each] for each in (wanted, lines))
    if not any(bare):
        return 0
    last = len(lines) - len(bare)
    return next((at + 1 for at in range(last + 1) if bare_lines[at : at + len(bare)] == bare), 0)


def _nearest_lines(lines: list[str], wanted: list[str]) -> str:
    """Name the line most like the first wanted one that says anything."""
    from difflib import get_close_matches

    first = next((line.strip() for line in wanted if line.strip()), "")[:_QUOTED_CHARACTERS]
    by_text: dict[str, int] = {}
    for number, line in enumerate(lines[:_COMPARED_LINES], 1):
        by_text.setdefault(line.strip()[:_QUOTED_CHARACTERS], number)
    near = get_close_matches(first, by_text, n=1, cutoff=_LIKENESS)
    if not near:
        return ""
    number = by_text[near[0]]
    line = known().redact(lines[number - 1].strip())
    return f"line {number}: {cut_characters(line, _QUOTED_CHARACTERS)!r}"


def _lines_of(plain: str, starts: list[int]) -> str:
    """Name the lines in which something was found."""
    numbers = dict.fromkeys(plain.count("\n", 0, start) + 1 for start in starts[:_NAMED_LINES])
    more = ", …" if len(starts) > _NAMED_LINES else ""
    return f"at line {', '.join(map(str, numbers))}{more}"
