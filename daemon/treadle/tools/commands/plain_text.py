"""What a program prints at a terminal, as plain text: for a reader who has no terminal.

Owns what becomes of bytes that are no UTF-8, of escape sequences, and of lines that are printed
over themselves, as progress bars are. Refuses to know who prints and who reads.
"""

from __future__ import annotations

import codecs
import re

# ECMA-48: control sequences; strings such as titles and links, ended by BEL or ST; other escapes
# of two or more characters. Whoever begins a string and does not end it within the line, or within
# these bounds, has printed an escape by mistake.
_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]{0,64}[ -/]{0,4}[@-~]"
    r"|[PX\]^_][^\x07\x1b\r\n]{0,4096}(?:\x07|\x1b\\)"
    r"|[ -/]{0,4}[0-OQ-WYZ\\`-~]"
    r")"
)
# The beginning of one of these, which the next piece may complete.
_OPEN_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}|[PX\]^_][^\x07\x1b\r\n]{0,4096}\x1b?|[ -/]{0,4})\Z"
)

# All that moves nothing and shows nothing; the tab, line feed, return and backspace mean something.
_CONTROLS = re.compile(r"[\x00-\x07\x0b-\x0c\x0e-\x1f\x7f-\x9f]")

# A longer line is data: nobody prints over it.
_MOST_LINE_CHARACTERS = 16 * 1024


class PlainText:
    """Makes plain text of bytes that come in pieces; an unfinished line is held back."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._line = ""

    @property
    def unfinished(self) -> str:
        """The line that has not ended, as it looks now."""
        return _as_seen(self._line)

    def take(self, data: bytes) -> str:
        """Take the next piece; return the lines that are whole by now."""
        return self._add(self._decoder.decode(data), is_last=False)

    def rest(self) -> str:
        """Return what is still held: the text is over."""
        done = self._add(self._decoder.decode(b"", final=True), is_last=True)
        line, self._line = self.unfinished, ""
        return done + line

    def _add(self, text: str, *, is_last: bool) -> str:
        text, self._open = _without_escapes(self._open + text, is_last=is_last)
        done, feed, line = (self._line + _CONTROLS.sub("", text)).rpartition("\n")
        self._line = _last_states(line)
        if len(self._line) > _MOST_LINE_CHARACTERS:
            done, feed, self._line = f"{done}{feed}{_as_seen(self._line)}", "", ""
        return _lines_as_seen(done) + feed


def _without_escapes(text: str, *, is_last: bool) -> tuple[str, str]:
    """Remove escape sequences; return the text, and the beginning of one at its end."""
    kept: list[str] = []
    at = 0
    while (escape := text.find("\x1b", at)) != -1:
        kept.append(text[at:escape])
        if found := _ESCAPE.match(text, escape):
            at = found.end()
        elif not is_last and _OPEN_ESCAPE.match(text, escape):
            return "".join(kept), text[escape:]
        else:
            at = escape + 1
    return "".join((*kept, text[at:])), ""


def _last_states(line: str) -> str:
    """Return what a line can still become, of one that is printed over again and again."""
    if "\r" not in line:
        return line
    shown = line.rstrip("\r")
    return shown[shown.rfind("\r") + 1 :] + line[len(shown) : len(shown) + 1]


def _lines_as_seen(lines: str) -> str:
    # Most output is only printed once, and is looked through a hundred times as fast in this way.
    if "\r" not in lines and "\b" not in lines:
        return lines
    return "\n".join(map(_as_seen, lines.split("\n")))


def _as_seen(line: str) -> str:
    """Return a line as it stands in the end: what was printed over it is it."""
    if "\r" in line:
        shown = line.rstrip("\r")
        line = shown[shown.rfind("\r") + 1 :]
    return _rubbed_out(line) if "\b" in line else line


def _rubbed_out(line: str) -> str:
    kept: list[str] = []
    for char in line:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)
