"""Each built-in that acts on files, with each kind of bad argument and bad file.

Every row is a call, in each sandbox where it can be made, and what the model is told of it: in
words it can act on. None raises, none hangs, none changes anything.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.calls import Caller, in_memory, on_disk
from treadle.sandbox.sandbox import READ_LIMIT_BYTES
from treadle.tools.builtin import BUILTIN
from treadle.tools.search import ripgrep

# Far more than any of these calls takes.
SECONDS = 20.0

FILES = {
    "folder/file.txt": b"text\n",
    "text.txt": b"text\n",
    "binary.dat": b"\0\1\2",
    "picture.txt": b"\x89PNG\r\n\x1a\n...",
    "empty.txt": b"",
}

# What each tool is called with beside its path.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "read": {},
    "glob": {"pattern": "*.txt"},
    "grep": {"pattern": "text"},
    "edit": {"edits": [{"old": "text", "new": "other"}]},
    "write": {"content": "other\n"},
    "remove": {},
}

OUTSIDE = "the path leads outside the folder that this agent works in"
NO_PATH = "this is no path: it is empty, or holds characters that no file name can"
SPECIAL = "this is neither a file nor a folder (a pipe, socket or device), so it is not opened"
LARGE = "the file is larger than 16 MiB, too large to read whole"
FOLDER = "this is a folder"
NEAR = "There is no file 'txet.txt'. Did you mean text.txt, "
UNREAD = "text.txt exists and was not read in this session: read it before it is "

# By path; a tool that is not named here takes the path as it is.
ANYWHERE: dict[str, dict[str, str]] = {
    "": dict.fromkeys(ARGUMENTS, NO_PATH),
    "a\0b": dict.fromkeys(ARGUMENTS, NO_PATH),
    "../outside.txt": dict.fromkeys(ARGUMENTS, OUTSIDE),
    "folder/../../x": dict.fromkeys(ARGUMENTS, OUTSIDE),
    "txet.txt": dict.fromkeys(("read", "glob", "grep", "edit", "remove"), NEAR),
    "no/such/file": dict.fromkeys(
        ("read", "glob", "grep", "edit", "remove"),
        "There is no file 'no/such/file', nor a folder 'no/such'.",
    ),
    "folder": {
        "edit": FOLDER,
        "write": FOLDER,
        "remove": "folder is a folder that is not empty: it holds file.txt. Remove those first.",
    },
    "text.txt/below": dict.fromkeys(ARGUMENTS, "a part of the path is a file, not a folder"),
    "text.txt": {"edit": UNREAD + "edited.", "write": UNREAD + "written over."},
    "binary.dat": {
        "read": "binary.dat is a binary file of 3 bytes. Only text can be read.",
        "edit": "binary.dat is a binary file: only text is written. Remove it first.",
        "write": "binary.dat is a binary file: only text is written. Remove it first.",
    },
    "picture.txt": {
        "read": "picture.txt is a PNG image of 11 bytes. A tool's result cannot hold images",
        "edit": "picture.txt is a PNG image: only text is written. Remove it first.",
        "write": "picture.txt is a PNG image: only text is written. Remove it first.",
    },
    "large.dat": dict.fromkeys(("read", "edit", "write", "remove"), LARGE),
    "x" * 300: dict.fromkeys(("edit", "write", "remove", "read"), "too long"),
    "output://1.txt": {
        "read": "There is no kept output 'output://1.txt'",
        "grep": "There is no kept output 'output://1.txt'",
        "edit": "output://1.txt is a kept output, not a file: it can only be read.",
        "write": "output://1.txt is a kept output, not a file: it can only be read.",
        "remove": "output://1.txt is a kept output, not a file: it can only be read.",
    },
    **{
        path: dict.fromkeys(("edit", "write", "remove"), f"{path} belongs to git")
        for path in (".git/hooks/pre-commit", "folder/../.GIT/config", ".git")
    },
    "new/": {"write": "'new/' names a folder: give the path of a file."},
}

ON_DISK: dict[str, dict[str, str]] = {
    "/etc/passwd": dict.fromkeys(ARGUMENTS, OUTSIDE),
    "pipe": dict.fromkeys(ARGUMENTS, SPECIAL),
    "link-out": dict.fromkeys(ARGUMENTS, OUTSIDE),
    "folder-out/secret.txt": dict.fromkeys(ARGUMENTS, OUTSIDE),
    "circle": dict.fromkeys(ARGUMENTS, "a link on the way leads in a circle"),
}

# Whatever the tool: what does not fit its schema.
MISFITS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {}, "missing required field") for name in BUILTIN if name not in ("undo", "jobs")),
    *(
        (name, {"path": 3, **arguments}, "path: Expected str, got int")
        for name, arguments in ARGUMENTS.items()
    ),
    *(
        (name, {"path": ["a"], **arguments}, "path: Expected str, got array")
        for name, arguments in ARGUMENTS.items()
    ),
    *(
        (name, {"path": "a", "mode": "fast", **arguments}, "contains unknown field mode")
        for name, arguments in ARGUMENTS.items()
    ),
    ("read", {"path": "a", "offset": 0}, "offset: Expected int >= 1"),
    ("read", {"path": "a", "limit": "all"}, "limit: Expected int, got str"),
    ("grep", {"pattern": ""}, "pattern: Expected str of length >= 1"),
    ("grep", {"pattern": "x" * 2001}, "pattern: Expected str of length <= 2000"),
    ("grep", {"pattern": "x", "context_lines": 21}, "context_lines: Expected int <= 20"),
    ("grep", {"pattern": "x", "limit": 0}, "limit: Expected int >= 1"),
    ("grep", {"pattern": "x", "ignore_case": "yes"}, "ignore_case: Expected bool, got str"),
    ("glob", {"pattern": ""}, "pattern: Expected str of length >= 1"),
    ("glob", {"pattern": "x" * 501}, "pattern: Expected str of length <= 500"),
    ("edit", {"path": "a", "edits": []}, "edits: Expected array of length >= 1"),
    ("edit", {"path": "a", "edits": {"old": "a", "new": "b"}}, "edits: Expected array, got object"),
    ("edit", {"path": "a", "edits": [{"old": "a"}]}, "missing required field new"),
    ("edit", {"path": "a", "edits": [{"old": "a", "new": None}]}, "Expected str, got null"),
    ("write", {"path": "a", "content": None}, "content: Expected str, got null"),
    ("write", {"path": "a", "content": {"a": 1}}, "content: Expected str, got object"),
    ("undo", {"redo": 1}, "redo: Expected bool, got int"),
    ("todo", {"items": ["a"]}, "Expected object, got str"),
    ("todo", {"items": [{"text": ""}]}, "Expected str of length >= 1"),
    ("todo", {"items": [{"text": "a", "state": "maybe"}]}, "Invalid enum value 'maybe'"),
    ("todo", {"items": [{"text": "a"}] * 101}, "items: Expected array of length <= 100"),
]

# What arguments that fit may still be wrong in, for files that are as they should be.
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": "text.txt", "offset": 9}, "text.txt has only 1 lines; use an offset up to"),
    ("glob", {"pattern": "!"}, "The pattern is empty: give one such as **/*.py."),
    ("glob", {"pattern": "[a"}, "A class is not closed in the pattern '[a'"),
    ("glob", {"pattern": "{a,b"}, "A brace is not closed in the pattern '{a,b'."),
    ("glob", {"pattern": "{" * 240 + "}" * 240}, "The pattern has too many braces within braces"),
    ("grep", {"pattern": "("}, "'(' is no regular expression: missing )"),
    ("grep", {"pattern": "x", "glob": "*.rs"}, "No file of '.' matches the glob '*.rs', of"),
    ("grep", {"pattern": "x", "glob": "["}, "A class is not closed in the pattern '['"),
    ("undo", {}, "There is nothing to undo: no tool of this session has changed a file."),
    ("undo", {"redo": True}, "Nothing was undone that could be done again."),
]


def _make_on_disk(root: Path) -> Caller:
    caller = on_disk(root, FILES)
    with (root / "large.dat").open("wb") as file:
        file.truncate(READ_LIMIT_BYTES + 1)
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("text\n", encoding="utf-8")
    if sys.platform != "win32":
        os.mkfifo(root / "pipe")
        (root / "link-out").symlink_to(outside / "secret.txt")
        (root / "folder-out").symlink_to(outside)
        (root / "circle").symlink_to("circle")
    return caller


def _make_in_memory(root: Path) -> Caller:
    return in_memory({**FILES, "large.dat": bytes(READ_LIMIT_BYTES + 1)})


SANDBOXES = {"virtual": _make_in_memory, "local": _make_on_disk}


@pytest.fixture(params=list(SANDBOXES))
def caller(request: pytest.FixtureRequest, tmp_path: Path) -> Caller:
    return SANDBOXES[request.param](tmp_path / "root")


async def _refused(caller: Caller, name: str, arguments: dict[str, Any]) -> str:
    async with asyncio.timeout(SECONDS):
        return await caller.refused(name, **arguments)


def _rows(table: dict[str, dict[str, str]]) -> list[Any]:
    return [
        pytest.param(path, name, told, id=f"{name}-{path[:20]!r}")
        for path, by_tool in table.items()
        for name, told in by_tool.items()
    ]


@pytest.mark.parametrize(("path", "name", "told"), _rows(ANYWHERE))
async def test_a_bad_path_is_told_in_words_to_act_on(
    caller: Caller, path: str, name: str, told: str
) -> None:
    assert told in await _refused(caller, name, {"path": path, **ARGUMENTS[name]})


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes need rights there")
@pytest.mark.parametrize(("path", "name", "told"), _rows(ON_DISK))
async def test_a_bad_path_on_a_disk_is_told_in_words_to_act_on(
    tmp_path: Path, path: str, name: str, told: str
) -> None:
    caller = _make_on_disk(tmp_path / "root")
    said = await _refused(caller, name, {"path": path, **ARGUMENTS[name]})
    assert told in said
    assert str(tmp_path) not in said
    assert (tmp_path / "outside/secret.txt").read_bytes() == b"text\n"


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="nothing is unreadable to a superuser"
)
@pytest.mark.parametrize("name", ["read", "edit", "write", "remove"])
async def test_an_unreadable_file_is_named_as_one(tmp_path: Path, name: str) -> None:
    caller = on_disk(tmp_path / "root", FILES)
    (tmp_path / "root/text.txt").chmod(0)
    said = await _refused(caller, name, {"path": "text.txt", **ARGUMENTS[name]})
    assert "Permission denied" in said


@pytest.mark.parametrize(("name", "arguments", "told"), MISFITS)
async def test_arguments_that_do_not_fit_are_told_with_the_schema(
    name: str, arguments: dict[str, Any], told: str
) -> None:
    said = await _refused(in_memory({"a": b"a"}), name, arguments)
    assert f"The arguments of {name} do not fit: " in said
    assert told in said
    assert '"type":"object"' in said


@pytest.mark.parametrize(("name", "arguments", "told"), WRONG)
async def test_arguments_that_fit_and_are_wrong_are_told_what_is_right(
    caller: Caller, name: str, arguments: dict[str, Any], told: str
) -> None:
    assert told in await _refused(caller, name, arguments)


@pytest.mark.parametrize("name", ["edit", "write"])
async def test_a_file_that_changed_since_it_was_read_is_left_alone(
    tmp_path: Path, name: str
) -> None:
    caller = on_disk(tmp_path / "root", FILES)
    path = tmp_path / "root/text.txt"
    await caller.told("read", path="text.txt")
    path.write_bytes(b"text of somebody else\n")
    said = await _refused(caller, name, {"path": "text.txt", **ARGUMENTS[name]})
    assert said.startswith("text.txt has changed since it was last read: read it again before")
    assert path.read_bytes() == b"text of somebody else\n"


async def test_what_is_no_text_is_no_obstacle_to_a_search(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It looks into files of any size.
    monkeypatch.setattr(ripgrep, "installed", lambda folder: None)
    assert await caller.told("grep", pattern="text", files_only=True) == (
        "folder/file.txt\ntext.txt\n… not searched, unreadable or too large: large.dat"
    )


async def test_a_read_of_each_kind_of_folder_and_empty_file_has_an_answer(caller: Caller) -> None:
    assert await caller.told("read", path="folder") == "folder is a folder:\nfile.txt"
    assert await caller.told("read", path="empty.txt") == "empty.txt is an empty file"
    assert await caller.told("grep", pattern="x", path="empty.txt") == (
        "No line matches 'x' in 1 file of 'empty.txt'."
    )


def test_every_tool_that_takes_a_path_is_in_the_table() -> None:
    taking = {
        name for name, tool in BUILTIN.items() if "path" in tool.spec.parameters["properties"]
    }
    # A skill's files lie in its own folder, in no sandbox of a session.
    assert taking - {"skill"} == set(ARGUMENTS)
