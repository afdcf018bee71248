"""Where a Markdown text that is still being written can be cut.

Owns the rule. Refuses to know how a block is shown. Each character is looked at once.
"""

from __future__ import annotations

import re


class BlockSplitter:
    """Cuts a stream of Markdown into blocks that can be shown by themselves.

    A cut falls behind a blank line outside code fences, and only where the next line begins at
    the margin: what is indented may belong to a list above. The blocks and `rest`, joined, are
    the text that was fed.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []  # the whole lines of the unfinished block
        self._line: list[str] = []  # the pieces of a line in progress
        self._fence = ""  # the line that opened the code fence we are in
        self._has_text = False  # something else than blank lines stands in it
        self._may_cut = False  # and a blank line was the last one

    @property
    def rest(self) -> str:
        """What belongs to no finished block yet."""
        return "".join(self._lines) + "".join(self._line)

    @property
    def open_fence(self) -> str:
        """The line that opened the code fence in which the text stands now, or nothing."""
        return self._fence

    def feed(self, text: str) -> list[str]:
        """Take more of the text; return the blocks that are finished by it."""
        blocks = []
        head, *more = text.split("\n")
        self._line.append(head)
        for piece in more:
            line = "".join(self._line) + "\n"
            blocks += self._cut_before(line)
            self._take(line)
            self._line = [piece]
        # Of a line in progress its first character says enough.
        return blocks + self._cut_before(next(filter(None, self._line), ""))

    def finish(self) -> str:
        """Return what is left, and begin anew."""
        rest = self.rest
        self._lines, self._line, self._fence = [], [], ""
        self._has_text = self._may_cut = False
        return rest

    def _cut_before(self, line: str) -> list[str]:
        """End the block if this line begins another one."""
        if not self._may_cut or not line or line[0].isspace():
            return []
        block = "".join(self._lines)
        self._lines, self._has_text, self._may_cut = [], False, False
        return [block]

    def _take(self, line: str) -> None:
        self._lines.append(line)
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
            return
        if not line.strip():
            self._may_cut = self._has_text
            return
        self._has_text, self._may_cut = True, False
        if _FENCE.match(line):
            self._fence = line


# CommonMark, "Fenced code blocks"; a fence in a list is indented further than three spaces.
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_CLOSING = re.compile(r"\s*(`{3,}|~{3,})\s*$")


def _closes(line: str, opening: str) -> bool:
    """Tell whether a line closes a fence: the same marks, at least as many, and nothing more."""
    closing, opened = _CLOSING.match(line), _FENCE.match(opening)
    return bool(closing and opened and closing[1].startswith(opened[1]))
