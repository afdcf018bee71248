"""What must come through a summary letter by letter: names, ids, hashes, addresses, numbers.

Owns how such a word is known, and which ones a summary lost. Only what a person wrote is looked
through, message by short message: a person who names something means it, while a pasted file or a
tool's output would drown all else. Refuses to know how summaries are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from treadle.thread.message import Message

# A longer message is something pasted; the model alone is asked what of it matters.
MESSAGE_CHARACTERS = 2_000

# Nobody names more in one message that is not a list, and a list is something pasted too.
OF_MESSAGE = 12

# A shorter number is a count or a year of somebody's age; a longer word is a blob.
LEAST_CHARACTERS = 4
MOST_CHARACTERS = 200

# Where little is said, a name counts as well: "My name is Mac." In a longer text there are many.
NAMING_CHARACTERS = 200

# So much of a line is kept on each side of an identifier that says what it is.
AROUND_CHARACTERS = 60

_QUOTED = re.compile(r"`([^`\n]{2,200})`")
_WORD = re.compile(r"[^\s`\"'“”<>(){}\[\];]+")
_NAMED = re.compile(r"\w[\w-]+\.[A-Za-z]\w{0,7}|\w+_\w[\w-]*|/?[\w.@~-]+(?:[/\\][\w.@~-]+)+|~/\S+")
_EDGES = ".,:!?*"


def identifiers(text: str) -> list[str]:
    """Return the words of a text that have to stay as they are, each once, in order."""
    quoted = [found.strip() for found in _QUOTED.findall(text)]
    words = (word.strip(_EDGES) for word in _WORD.findall(text))
    named = _names(text) if len(text) <= NAMING_CHARACTERS else ()
    found = [*quoted, *(word for word in words if _is_identifier(word)), *named]
    return list(dict.fromkeys(found))


def lost(messages: Iterable[Message], earlier: Sequence[str], summary: str, most: int) -> list[str]:
    """Return lines for a summary's identifiers that it should hold and does not, oldest first.

    Args:
        messages: what persons wrote of what is summarised, in order.
        earlier: the lines of identifiers of the summary that it takes the place of.
        summary: its text.
        most: how many characters the lines may have, each with a line end. Of more, half of them
            are what was named last, and half what was named first: what a conversation begins
            with is often what it is about.
    """
    named = list(dict.fromkeys([*earlier, *_lines(messages)]))
    newest, held = _missing(reversed(named), summary, most // 2)
    left = most - sum(len(line) + 1 for line in newest)
    oldest, _ = _missing(named, held, left)
    chosen = {*newest, *oldest}
    return [line for line in named if line in chosen]


def _missing(named: Iterable[str], held: str, most: int) -> tuple[list[str], str]:
    """Return the first lines that name what is not held, as many as fit, and what then is held."""
    lines: list[str] = []
    for line in named:
        if most < LEAST_CHARACTERS:
            break
        if len(line) < most and any(not _holds(held, word) for word in identifiers(line)):
            lines.append(line)
            held = f"{held}\n{line}"
            most -= len(line) + 1
    return lines, held


def _lines(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        text = message.text
        if len(text) > MESSAGE_CHARACTERS:
            continue
        for word in identifiers(text)[:OF_MESSAGE]:
            yield f"- {_around(text, word)}"


def _around(text: str, word: str) -> str:
    """Return a word with what stands around it in its line, as its person wrote it."""
    at = text.index(word)
    start = max(text.rfind("\n", 0, at) + 1, at - AROUND_CHARACTERS)
    end = text.find("\n", at + len(word))
    end = min(len(text) if end < 0 else end, at + len(word) + AROUND_CHARACTERS)
    # Not from the middle of a word: half an identifier is none.
    if start and not text[start - 1].isspace():
        start += len(text[start:at]) - len(text[start:at].partition(" ")[2])
    if end < len(text) and not text[end].isspace():
        end = at + len(word) + len(text[at + len(word) : end].rpartition(" ")[0])
    return " ".join(text[start:end].split())


def _holds(text: str, word: str) -> bool:
    if word not in text:
        return False
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _names(text: str) -> Iterator[str]:
    """Find what is written like a name: with a capital, where no sentence begins."""
    begins = True
    for word in _WORD.findall(text):
        bare = word.strip(_EDGES)
        if not begins and len(bare) > 1 and bare[0].isupper() and "'" not in bare:
            yield bare
        begins = word.endswith((".", "!", "?", ":")) or not bare.strip("-")


def _is_identifier(word: str) -> bool:
    if not LEAST_CHARACTERS <= len(word) <= MOST_CHARACTERS:
        return False
    has_mark = "://" in word or "@" in word or "\\" in word
    return has_mark or any(map(str.isdigit, word)) or _NAMED.fullmatch(word) is not None
