"""Secrets: values of the environment that no thread, event, error or log may hold.

Owns which they are, how they are recognised and what stands in their place.
Refuses to know who shows or keeps text; reads no file.

A secret is the value of a variable that somebody named: what holds a model's key, what
`[secrets]` in config.toml lists, a token of an MCP server. Names alone are not enough: a variable
called SSH_KEY may hold a path that tools need, so only the log leaves out what just looks so.
Once named, a secret stays one for the life of the process.

| a secret is recognised                                    | and is not                         |
|-----------------------------------------------------------|------------------------------------|
| as it is, and each long line of one that has several      | in parts, or a part alone          |
| inside JSON strings and Python's `repr`                   | escaped twice                      |
| percent-encoded                                           | where letters are encoded that     |
|                                                           | need not be                        |
| in base64 and its URL alphabet, whatever stands around it | in hex, packed, encrypted          |
"""

from __future__ import annotations

import binascii
import functools
import os
import re
from collections.abc import Iterator
from typing import Any

# A shorter value is a word that may stand anywhere: hiding it would garble text and guard nothing.
SECRET_CHARACTERS = 8


def hold(*names: str) -> None:
    """Keep the values of environment variables secret from now on.

    Args:
        names: the variables; one that is not set, or is too short, hides nothing.
    """
    global _names
    # A new tuple each time: other threads are reading the old one.
    _names = tuple(dict.fromkeys((*_names, *names)))


def hold_value(name: str, value: str) -> None:
    """Keep a value secret that stands in no variable.

    Args:
        name: what people call it; it stands in the value's place.
        value: the secret.
    """
    global _values
    if _is_long(value):
        _values = tuple(dict.fromkeys((*_values, (name, value))))


def known(*also: str) -> Secrets:
    """Return the secrets as they are now.

    Args:
        also: further variables that are secret to the caller alone.
    """
    named = ((name, os.environ.get(name, "").strip()) for name in dict.fromkeys((*_names, *also)))
    return _compiled((*(each for each in named if _is_long(each[1])), *_values))


def too_short(names: tuple[str, ...]) -> list[str]:
    """Return those of some variables whose values cannot be hidden, because they are short."""
    values = ((name, os.environ.get(name, "").strip()) for name in names)
    return [name for name, value in values if value and not _is_long(value)]


class Secrets:
    """Some secrets, ready to be looked for.

    Args:
        values: names and values; of equal values the first one's name is shown.
    """

    def __init__(self, values: tuple[tuple[str, str], ...]) -> None:
        found: dict[str, str] = {}
        for name, value in values:
            for form in _forms(value):
                found.setdefault(form, f"[secret {name}]")
        # The longest first: a secret may be the beginning of another.
        self._forms = sorted(found, key=len, reverse=True)
        self._shown = found
        self._in_json = [_in_json(form).encode(errors="replace") for form in self._forms]
        self._pattern = re.compile("|".join(map(re.escape, self._forms)))
        self._shortest = min(map(len, self._forms), default=0)
        self._longest = max(map(len, self._forms), default=0)
        # A stream looks at each letter of each piece: most begin no secret.
        self._by_letter: dict[str, list[str]] = {}
        for form in self._forms:
            self._by_letter.setdefault(form[0], []).append(form)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def redact(self, text: str) -> str:
        """Return `text` with `[secret NAME]` in the place of each secret."""
        # Most texts hold none, and are looked through several times as fast in this way.
        for form in self._forms:
            if form in text:
                return self._pattern.sub(self._name, text)
        return text

    def redact_all(self, value: Any) -> Any:
        """Copy a JSON-like value with every text in it redacted, keys included."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {self.redact_all(key): self.redact_all(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_all(each) for each in value]
        return value

    def may_be_in(self, json: bytes) -> bool:
        """Tell whether a JSON text may hold a secret; False is certain."""
        return any(form in json for form in self._in_json)

    def split(self, text: str) -> tuple[str, str]:
        """Split a text that goes on: what is certain of it, redacted, and the rest as it is.

        The rest is the end that may still become a secret with what follows.
        """
        done: list[str] = []
        start = 0
        while True:
            end = self._open_end(text, start)
            found = self._search(text, start)
            if found is None or found.start() >= end:
                return "".join((*done, text[start:end])), text[end:]
            done += [text[start : found.start()], self._name(found)]
            start = found.end()

    def _open_end(self, text: str, start: int) -> int:
        """Return where the longest end of `text` begins that is the beginning of a secret."""
        for at in range(max(start, len(text) - self._longest + 1), len(text)):
            for form in self._by_letter.get(text[at], ()):
                if len(text) - at < len(form) and form.startswith(text[at:]):
                    return at
        return len(text)

    def _search(self, text: str, start: int) -> re.Match[str] | None:
        # The pieces of a stream are shorter than any secret, nearly always.
        if not self._forms or len(text) - start < self._shortest:
            return None
        return self._pattern.search(text, start)

    def _name(self, found: re.Match[str]) -> str:
        return self._shown[found[0]]


class SecretStream:
    """Redacts one text that comes in pieces.

    What comes out, joined, is the whole text redacted. A piece is held back only as far as it may
    still become a secret: nothing of ordinary text, or a character or two.

    Args:
        secrets: what is looked for.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""

    def take(self, piece: str) -> str:
        """Take the next piece; return what is certain by now, which may be nothing."""
        if not self._secrets:
            return piece
        certain, self._held = self._secrets.split(self._held + piece)
        return certain

    def rest(self) -> str:
        """Return what is still held: the text is over."""
        held, self._held = self._held, ""
        return self._secrets.redact(held)


# Which variables hold secrets. The one that every OpenAI-compatible library reads is always there.
_names: tuple[str, ...] = ("OPENAI_API_KEY",)
# Secrets that stand in no variable, with what they are called.
_values: tuple[tuple[str, str], ...] = ()

# What percent-encoding leaves as it is (RFC 3986, 2.3), beside letters and digits.
_UNRESERVED = "-._~"

_TO_URL_ALPHABET = str.maketrans("+/", "-_")


# The threads' and events' own, and the log's, which looks at more variables; twice for a change.
@functools.lru_cache(maxsize=4)
def _compiled(values: tuple[tuple[str, str], ...]) -> Secrets:
    return Secrets(values)


def _is_long(value: str) -> bool:
    return len(value) >= SECRET_CHARACTERS


def _forms(value: str) -> Iterator[str]:
    """Yield everything that a secret is recognised by."""
    # Bytes of the environment that are no text look in every text of ours like this.
    value = value.encode(errors="surrogateescape").decode(errors="replace")
    for part in dict.fromkeys((value, *map(str.strip, value.splitlines()))):
        if _is_long(part):
            yield from (part, _in_json(part), _in_json(part, ascii_only=True))
            yield repr(part)[1:-1]
            # Libraries differ in what else they leave as it is.
            yield from (_percent(part), _percent(part, "/"), _percent(part, "!'()*"))
            yield _percent(part).replace("%20", "+")
            yield from _base64(part.encode())


def _in_json(text: str, *, ascii_only: bool = False) -> str:
    if text.isalnum() and text.isascii():
        return text
    import json

    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _percent(text: str, safe: str = "") -> str:
    keep = _UNRESERVED + safe
    return "".join(
        char
        if char.isascii() and (char.isalnum() or char in keep)
        else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in text
    )


def _base64(data: bytes) -> Iterator[str]:
    """Yield the letters that depend on `data` alone, for each way it can stand in three bytes."""
    for before in range(3):
        encoded = binascii.b2a_base64(bytes(before) + data, newline=False).decode()
        letters = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from (letters, letters.translate(_TO_URL_ALPHABET))
