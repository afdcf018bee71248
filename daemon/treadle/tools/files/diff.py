"""What a change does to a file, for a person to judge and for a model to check.

Owns the form of a unified diff. Secrets are taken out of the text before it is compared: the
lines of a diff are cut, and half a secret is not recognised any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.models.attachments import size_in_words
from treadle.secrets import known
from treadle.tools.files.text_file import TextFile, decode
from treadle.tools.limits import cut_characters

# Unchanged lines around a change: the field's standard.
_CONTEXT_LINES = 3

# Comparing takes time with the square of this; what differs over more lines is shown as replaced.
_COMPARED_LINES = 2000

# What a model is shown of its own change: enough to see that it hit what it meant.
_EXCERPT_LINES = 40
# A longer line is data; its beginning tells which one it is.
_EXCERPT_LINE_CHARACTERS = 200

# As diffs say it, so that a line with and one without a line end differ.
_NO_LINE_END = "\n\\ no line end at the end of the file"


@dataclass(frozen=True, slots=True)
class Diff:
    """A change to one file.

    Args:
        added: lines that are new.
        removed: lines that are gone.
        text: the unified diff, redacted.
    """

    added: int
    removed: int
    text: str

    @property
    def stat(self) -> str:
        """The change in numbers."""
        return f"+{self.added} -{self.removed}"

    @property
    def excerpt(self) -> str:
        """The hunks, bounded."""
        lines = self.text.split("\n")[2:]
        shown = [cut_characters(line, _EXCERPT_LINE_CHARACTERS) for line in lines[:_EXCERPT_LINES]]
        if len(lines) > _EXCERPT_LINES:
            shown.append(f"… {len(lines) - _EXCERPT_LINES} more lines of the diff")
        return "\n".join(shown)


def file_diff(path: str, before: bytes | None, after: bytes | None) -> Diff:
    """Compare a file with what it becomes; None where there is none. It may take a second.

    Line ends do not count: whoever writes keeps them.
    """
    head = (
        f"--- {'/dev/null' if before is None else path}\n"
        f"+++ {'/dev/null' if after is None else path}"
    )
    texts = [TextFile("") if data is None else decode(data) for data in (before, after)]
    if None in texts:
        sizes = " to ".join(
            "nothing" if data is None else size_in_words(len(data)) for data in (before, after)
        )
        return Diff(0, 0, f"{head}\n(no text: from {sizes})")
    old, new = (_lines(text.text) for text in texts if text is not None)
    hunks = _Hunks(old, new)
    body = list(hunks)
    return Diff(hunks.added, hunks.removed, "\n".join([head, *body]))


class _Hunks:
    """The lines of a unified diff's hunks; what was added and removed is known after them."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        self._old, self._new = old, new
        self.added = self.removed = 0

    def __iter__(self) -> Iterator[str]:
        # What is alike at both ends is cut off first; it may be nearly all of a large file.
        start = _alike(self._old, self._new)
        rest = min(len(self._old), len(self._new)) - start
        end = min(_alike(self._old[::-1], self._new[::-1]), rest)
        # Some of it is kept, as the context of the first and the last hunk.
        start, end = max(0, start - _CONTEXT_LINES), max(0, end - _CONTEXT_LINES)
        old = self._old[start : len(self._old) - end]
        new = self._new[start : len(self._new) - end]
        if max(len(old), len(new)) > _COMPARED_LINES:
            groups = [[("replace", 0, len(old), 0, len(new))]]
        else:
            from difflib import SequenceMatcher

            matcher = SequenceMatcher(None, old, new)
            groups = list(matcher.get_grouped_opcodes(_CONTEXT_LINES)) if old != new else []
        for group in groups:
            yield _range(group, start)
            for code in group:
                yield from self._part(code, old, new)

    def _part(
        self, code: tuple[str, int, int, int, int], old: list[str], new: list[str]
    ) -> Iterator[str]:
        tag, old_start, old_end, new_start, new_end = code
        if tag == "equal":
            yield from (f" {line}" for line in old[old_start:old_end])
            return
        self.removed += old_end - old_start
        self.added += new_end - new_start
        yield from (f"-{line}" for line in old[old_start:old_end])
        yield from (f"+{line}" for line in new[new_start:new_end])


def _lines(text: str) -> list[str]:
    """Split a text without its secrets; a last line without a line end says so."""
    lines = known().redact(text).replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    else:
        lines[-1] += _NO_LINE_END
    return lines


def _alike(old: list[str], new: list[str]) -> int:
    """Return how many lines two texts have in common at the beginning."""
    pairs = zip(old, new, strict=False)
    most = min(len(old), len(new))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), most)


def _range(group: list[tuple[str, int, int, int, int]], offset: int) -> str:
    """Write the head of a hunk."""
    first, last = group[0], group[-1]
    old, new = (
        _span(first[1] + offset, last[2] - first[1]),
        _span(first[3] + offset, last[4] - first[3]),
    )
    return f"@@ -{old} +{new} @@"


def _span(start: int, length: int) -> str:
    """Write a range of lines as diffs do: an empty one names the line before it."""
    return f"{start + 1 if length else start},{length}"
