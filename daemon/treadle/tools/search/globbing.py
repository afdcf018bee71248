"""Name patterns as shells and ignore files know them: `*`, `?`, `**`, classes and braces.

Owns what a pattern means: one without `/` is matched against the name alone, at any depth; hidden
files are found only by a pattern that names a dot. Refuses to know where the files are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

from treadle.tools.tool import ToolError

# A pattern with many stars takes time with their power; all names of a walk fit in this.
MATCH_SECONDS = 5.0

# Longer ones were not written to find a file.
PATTERN_CHARACTERS = 500

# A part of a pattern that begins with a dot, but for `.` and `..` alone.
_DOT = re.compile(r"(?:^|[/{,])\.(?!\.?(?:/|$))")

# What means something in a class and is only meant to stand there.
_IN_CLASS = re.compile(r"[\\\[\]^&~|]")


def chosen(files: Iterable[str], pattern: str) -> list[str]:
    """Return those of some files that a pattern names; it may take seconds.

    Args:
        files: paths relative to the folder that the pattern counts from.
        pattern: where it begins with `!`, the files that it does not name.

    Raises:
        ToolError: it is no pattern, or takes too long.
    """
    import regex

    wanted = pattern.removeprefix("!")
    try:
        compiled = regex.compile(translated(wanted), regex.DOTALL)
    except RecursionError:
        raise ToolError("The pattern has too many braces within braces: use fewer.") from None
    is_wanted = wanted == pattern
    until = time.monotonic() + MATCH_SECONDS
    names_dot = bool(_DOT.search(wanted))
    try:
        return [
            file
            for file in files
            if (names_dot or is_visible(file))
            and bool(
                compiled.fullmatch(
                    file, timeout=max(until - time.monotonic(), 0.001), concurrent=True
                )
            )
            is is_wanted
        ]
    except TimeoutError:
        raise ToolError(f"The pattern {pattern!r} takes too long: use fewer stars.") from None


def is_visible(file: str) -> bool:
    """Whether neither a file nor a folder on the way to it has a name that begins with a dot."""
    return not (file.startswith(".") or "/." in file)


def plain_folders(pattern: str) -> Sequence[str]:
    """Return the folders that a pattern names before anything in it may vary."""
    *folders, _ = _anchored(pattern).split("/")
    plain: list[str] = []
    for folder in folders:
        if re.search(r"[*?\[{\\]", folder):
            break
        plain.append(folder)
    return plain


def translated(pattern: str) -> str:
    """Return a pattern as a regular expression that has to match a whole path.

    Raises:
        ToolError: a class or a brace is not closed.
    """
    if not pattern:
        raise ToolError("The pattern is empty: give one such as **/*.py.")
    anchored = _anchored(pattern)
    if anchored.endswith("/"):
        anchored += "**"
    prefix = "" if "/" in anchored or pattern.startswith("/") else "(?:.*/)?"
    return prefix + _Translation(anchored).whole()


def _anchored(pattern: str) -> str:
    return pattern.removeprefix("./").lstrip("/")


class _Translation:
    """A pattern on its way to a regular expression."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern):
            parts.append(self._next())
        if self._depth:
            raise ToolError(f"A brace is not closed in the pattern {self._pattern!r}.")
        return "".join(parts)

    def _next(self) -> str:
        character = self._pattern[self._at]
        self._at += 1
        if character == "*":
            return self._star()
        if character == "[":
            return self._class()
        if character == "\\" and self._at < len(self._pattern):
            self._at += 1
            return re.escape(self._pattern[self._at - 1])
        if character == "{":
            self._depth += 1
        elif self._depth and character == "}":
            self._depth -= 1
        elif not (self._depth and character == ","):
            return "[^/]" if character == "?" else re.escape(character)
        return {"{": "(?:", "}": ")", ",": "|"}[character]

    def _star(self) -> str:
        """Translate a star, and those right after it; two that are a whole part cross folders."""
        start = self._at - 1
        while self._peek() == "*":
            self._at += 1
        before = self._pattern[start - 1] if start else "/"
        is_part = before in "/{," and self._peek() in ("", "/", "}", ",")
        if self._at - start < 2 or not is_part:
            return "[^/]*"
        if self._peek() != "/":
            return ".+"
        self._at += 1
        return "(?:.*/)?"

    def _class(self) -> str:
        negated = self._peek() in ("!", "^") and bool(self._peek())
        start = self._at + negated
        # A bracket that comes first stands for itself.
        end = self._pattern.find("]", start + 1)
        if end == -1:
            raise ToolError(
                f"A class is not closed in the pattern {self._pattern!r}; a plain bracket is [[]."
            )
        self._at = end + 1
        body = _IN_CLASS.sub(r"\\\g<0>", self._pattern[start:end])
        return f"(?!/)[{'^' if negated else ''}{body}]"

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]
