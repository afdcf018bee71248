"""Whether a person's message gives a tool something to work on.

A model this small, asked "My name is Mac.", may read "Mac.txt". So a tool enters the grammar of a
step only where the words call for it, and a path only if somebody named it. Owns those signs,
which are few, English and file-shaped; refuses to know how a step is spelt. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from treadle.thread.message import Message

# Newest first; enough for a listing's head, and few enough for a grammar.
MAX_PATHS = 32


def callable_tools(messages: Sequence[Message], names: Sequence[str]) -> list[str]:
    """Return which of the tools the newest message calls for.

    Right after a result the list is empty: a model this small would call the same tool again
    and again.
    """
    if not messages or messages[-1].role != "user":
        return []
    text = messages[-1].text
    has_path = any(_paths(text))
    knows_path = bool(named_paths(messages))
    return [
        name
        for name in names
        if (name in _TAKES_NAMED_PATH and has_path)
        or (_is_called_for(name, text) and (knows_path or name not in _TAKES_NAMED_PATH))
    ]


def named_paths(messages: Sequence[Message]) -> list[str]:
    """Return the paths that the person or a tool's result named, the newest first."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        if message.role in ("user", "tool"):
            found |= dict.fromkeys(_paths(message.text))
        if len(found) >= MAX_PATHS:
            break
    return list(found)[:MAX_PATHS]


# These act on one file, which somebody must have named; the others search or run.
_TAKES_NAMED_PATH = frozenset({"read", "edit"})

_WORDS = {
    name: re.compile(rf"\b(?:{words})\b|{signs}", re.IGNORECASE)
    for name, words, signs in (
        ("read", "read|open|show|see|files?|says?|contents?", r"(?!)"),
        ("edit", "edit|replace|change|fix|write", r"(?!)"),
        ("glob", r"files?|folders?|director(?:y|ies)|glob", r"\*"),
        ("grep", "search|find|grep|lines?|occurrences?", r"(?!)"),
        ("shell", "run|execute|shell|commands?", r"(?!)"),
    )
}


def _is_called_for(name: str, text: str) -> bool:
    """Whether words of a text call for a tool; a tool without words is never called for."""
    return name in _WORDS and bool(_WORDS[name].search(text))


# What stands around a word in prose without belonging to it.
_AROUND = "\"'()[]{}<>,;:!?"

# `notes.txt`, `src/main.py`, `.env`; not "J.R.", "3.14" or "e.g.".
_FILE = re.compile(r"(?:.*[\w-]{2,}|(?:.*/)?)\.[A-Za-z]\w{0,9}", re.DOTALL)

# `/etc/hosts`, `./run`, `~/mail`; not "and/or".
_ROOTED = re.compile(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?[/\\][^/\\].*", re.DOTALL)


def _paths(text: str) -> Iterator[str]:
    for word in re.findall(r"`[^`\s]+`|\S+", text):
        quoted = len(word) > 2 and word[0] == word[-1] == "`"
        bare = word.strip("`") if quoted else word.strip(_AROUND).rstrip(".")
        # An address of a mailbox or of a page is no file, and a pattern is no path.
        if not bare or any(sign in bare for sign in ("@", "://", "*")):
            continue
        if quoted or _FILE.fullmatch(bare) or _ROOTED.fullmatch(bare):
            yield bare
