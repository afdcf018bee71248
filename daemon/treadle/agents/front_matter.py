"""The front matter of a Markdown file: where it stands, and its keys as plain values.

Owns what text such a file may be, and the YAML that is taken: one level of keys, each once, no
aliases, no tags of programs.
Refuses to know what the keys mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treadle.agents.checks import FILE_LIMIT_BYTES

if TYPE_CHECKING:
    import yaml

# Some ten keys fit many times over; the reader is slow enough to notice beyond it.
FRONT_MATTER_CHARACTERS = 32 * 1024

_FENCE = re.compile(r"---[ \t]*\r?(?:\n|$)")
_CLOSING_FENCE = re.compile(r"^---[ \t]*\r?(?:\n|$)", re.MULTILINE)


class FrontMatterError(Exception):
    """What is wrong, and the line of the file, from 1, where that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of the front matter, its value as YAML means it, and its line in the file."""

    key: str
    value: Any
    line: int | None


def decode(data: bytes) -> str:
    """Return a file's text.

    Raises:
        FrontMatterError: it is too large, no UTF-8, or no text.
    """
    if len(data) > FILE_LIMIT_BYTES:
        raise FrontMatterError(f"the file is larger than {FILE_LIMIT_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FrontMatterError("the file is not UTF-8; save it as UTF-8", line) from error
    if "\0" in text:
        raise FrontMatterError("the file holds a NUL", text[: text.index("\0")].count("\n") + 1)
    return text


def without_last_line_end(body: str) -> str:
    """Return a text without the line end that every file ends with."""
    return body.removesuffix("\n").removesuffix("\r") if body.endswith("\n") else body


def split(text: str) -> tuple[str, str]:
    """Split a file into its front matter, empty if it has none, and its body.

    Raises:
        FrontMatterError: the front matter has no end, or no reasonable size.
    """
    opening = _FENCE.match(text)
    if opening is None:
        return "", text
    closing = _CLOSING_FENCE.search(text, opening.end())
    if closing is None:
        raise FrontMatterError(
            "the front matter that begins here has no closing line ---; "
            "instructions without front matter must not begin with one",
            1,
        )
    if closing.start() - opening.end() > FRONT_MATTER_CHARACTERS:
        raise FrontMatterError(
            f"the front matter has more than {FRONT_MATTER_CHARACTERS} characters; "
            "instructions belong below it",
            1,
        )
    return text[opening.end() : closing.start()], text[closing.end() :]


def read_entries(front_matter: str) -> list[Entry]:
    """Read the keys and values of a front matter, in order.

    Raises:
        FrontMatterError: it is no YAML, or more than `key: value` lines.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(front_matter)
        root = loader.get_single_node()
        _refuse_aliases(front_matter)
        return [] if root is None else _entries(loader, root)
    except yaml.MarkedYAMLError as error:
        line = _line(error.problem_mark or error.context_mark)
        raise FrontMatterError(f"this is no YAML: {error.problem}", line) from error
    except yaml.YAMLError as error:
        raise FrontMatterError(f"this is no YAML: {_first_line(error)}") from error
    except RecursionError as error:
        raise FrontMatterError("the front matter is nested too deeply") from error


def _refuse_aliases(front_matter: str) -> None:
    """Refuse `*name` before values are built of it: a few lines of it can mean gigabytes.

    To be called once the nodes are composed, which bounds the depth and thereby the time.
    """
    import yaml

    for event in yaml.parse(front_matter, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise FrontMatterError(
                f"the alias *{event.anchor} is not supported; write the value out, in quotes "
                "if it is text",
                _line(event.start_mark),
            )


def _entries(loader: yaml.SafeLoader, root: yaml.Node) -> list[Entry]:
    import yaml

    if not isinstance(root, yaml.MappingNode):
        raise FrontMatterError("the front matter must be lines of `key: value`", 2)
    entries: list[Entry] = []
    for key_node, value_node in root.value:
        line = _line(key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            raise FrontMatterError("a key must be a word", line)
        key = key_node.value
        if any(entry.key == key for entry in entries):
            raise FrontMatterError(f"{key!r} stands here a second time; keep one", line)
        _refuse_twins(value_node)
        entries.append(Entry(key, _value(loader, value_node, key, line), line))
    return entries


def _refuse_twins(node: yaml.Node) -> None:
    """Refuse a key that stands twice in a table, of which YAML's reader takes the last.

    The depth is bounded, for the nodes are composed.
    """
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _refuse_twins(each)
    if isinstance(node, yaml.MappingNode):
        seen: list[str] = []
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise FrontMatterError(
                        f"{key.value!r} stands here a second time; keep one", _line(key.start_mark)
                    )
                seen.append(key.value)
            _refuse_twins(value)


def _value(loader: yaml.SafeLoader, node: yaml.Node, key: str, line: int | None) -> Any:
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, ArithmeticError, TypeError) as error:
        # What looks like a date or a number and is none.
        raise FrontMatterError(f"{key!r} has a value that is no YAML: {error}", line) from error


def _line(mark: Any) -> int | None:
    """Return the file's line for a mark of the reader.

    The first line of the front matter is the second of the file, and marks count from 0.
    """
    return mark.line + 2 if mark else None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
