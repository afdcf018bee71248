"""What `grep` shows: matching lines below the names of their files, bounded in every direction.

Owns that form. Text is redacted before it is searched, so that no pattern finds out a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.secrets import known
from treadle.tools.files.text_file import decode
from treadle.tools.limits import RESULT_LIMIT_BYTES, cut_names
from treadle.tools.search.matching import Hit, Pattern
from treadle.tools.tool import ToolError

# More hits than this nobody reads.
MAX_HITS = 1000
# More lines around a match are what `read` is for.
MAX_CONTEXT = 20
# Of a longer line what stands around the match is shown.
LINE_CHARACTERS = 400

# What is named of the files that could not be searched.
_NAMED_SKIPPED = 5

# Kept free for the lines that end a report, so that the pipeline never cuts them off.
_NOTES_BYTES = 4000
# What stands before a match in a line that is cut.
_LEAD_CHARACTERS = 100


class Report:
    """Grows with each file that is searched.

    Args:
        limit: how many matching lines to show.
        context_lines: how many lines to show around each.
        files_only: name files alone, as many as `limit`.

    Attributes:
        skipped: the files that could not be read.
        is_full: there is more than it may hold.
        is_given_up: set by whoever wants no more of it, from another thread.
    """

    def __init__(self, limit: int, context_lines: int, files_only: bool) -> None:
        self.skipped: list[str] = []
        self.is_full = False
        self.is_given_up = False
        self._limit = limit
        self._context_lines = context_lines
        self._files_only = files_only
        self._blocks: list[str] = []
        self._hits = 0
        self._left_bytes = RESULT_LIMIT_BYTES - _NOTES_BYTES

    def search(self, files: Iterable[tuple[str, bytes]], wanted: Pattern, until: float) -> None:
        """Search files, by path, until it is full; what is no text is left out.

        Args:
            files: their paths and what they hold.
            wanted: what to look for.
            until: when to give up, by the monotonic clock.

        Raises:
            TimeoutError: it is that late; what was found until then is kept.
        """
        for path, data in files:
            file = decode(data)
            if file is not None:
                text = known().redact(file.text).replace("\r\n", "\n")
                self._search_one(path, text, wanted, until)
            if self.is_full or self.is_given_up:
                return

    def text(self, nothing: str, notes: Sequence[str] = (), *, is_late: bool = False) -> str:
        """Return the report.

        Args:
            nothing: what to say where nothing was found.
            notes: further lines for its end.
            is_late: the search was given up.

        Raises:
            ToolError: it was given up before anything was found.
        """
        if is_late and not self._blocks:
            raise ToolError(
                "The search took too long: use a simpler pattern, a path further down or a glob."
            )
        ending = list(notes)
        if self.skipped:
            some = cut_names(self.skipped, _NAMED_SKIPPED)
            ending.append(f"… not searched, unreadable or too large: {some}")
        if is_late:
            ending.append("… the search took too long and was stopped; narrow it for the rest")
        elif self.is_full:
            what = "files" if self._files_only else "matching lines"
            where = f"after {self._limit} {what}" if self._left_bytes >= 0 else "where it is full"
            ending.append(f"… stopped {where}; narrow pattern, path or glob for the rest")
        if not self._blocks:
            return "\n".join([nothing, *ending])
        between = "\n" if self._files_only else "\n\n"
        return "\n".join([between.join(self._blocks), *ending])

    def _search_one(self, path: str, text: str, wanted: Pattern, until: float) -> None:
        hits: list[Hit] = []
        try:
            for hit in wanted.hits(text, until):
                if self._hits >= self._limit:
                    self.is_full = True
                    break
                hits.append(hit)
                self._hits += 1
                if self._files_only:
                    break
        finally:
            if hits:
                self._add(path, text, hits)

    def _add(self, path: str, text: str, hits: list[Hit]) -> None:
        block = [path]
        if not self._files_only:
            block += _rendered(text.split("\n"), hits, self._context_lines)
        kept: list[str] = []
        for line in block:
            self._left_bytes -= len(line.encode(errors="replace")) + 2
            if self._left_bytes < 0:
                self.is_full = True
                break
            kept.append(line)
        if kept:
            self._blocks.append("\n".join(kept))


def _rendered(lines: list[str], hits: list[Hit], around: int) -> list[str]:
    """Return numbered lines: `12: ` for one that matches, `12- ` for one around it."""
    columns = {hit.line: hit.column for hit in hits}
    shown: list[str] = []
    last = 0
    end = len(lines) if lines[-1] else len(lines) - 1
    for hit in hits:
        first = max(last + 1, hit.line - around)
        if around and last and first > last + 1:
            shown.append("--")
        for number in range(first, min(end, hit.line + around) + 1):
            sign = ":" if number in columns else "-"
            shown.append(f"{number}{sign} {_cut(lines[number - 1], columns.get(number, 0))}")
            last = number
    return shown


def _cut(line: str, column: int) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line
    start = max(0, column - _LEAD_CHARACTERS) if column >= LINE_CHARACTERS else 0
    end = start + LINE_CHARACTERS
    before = "…" if start else ""
    after = f"… [{len(line) - end} more characters in this line]" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"
