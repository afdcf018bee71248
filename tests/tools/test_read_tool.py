"""The tool `read`, as a model meets it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.calls import Caller
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.builtin import BUILTIN
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.spill import Spill
from treadle.tools.tool import ToolContext


async def _read(files: dict[str, bytes], **arguments: Any) -> ToolOutcome:
    context = ToolContext(sandbox=VirtualSandbox(files))
    return await run_call(ToolCall("1", "read", arguments), BUILTIN, context)


def _numbered(*lines: str) -> str:
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))


def test_read_is_the_first_built_in_and_needs_to_be_allowed_to_read() -> None:
    assert next(iter(BUILTIN)) == "read"
    assert BUILTIN["read"].capability == "read"
    assert BUILTIN["read"].spec.parameters["required"] == ["path"]
    assert list(BUILTIN["read"].spec.parameters["properties"]) == ["path", "offset", "limit"]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"\xef\xbb\xbfa", ["a"]),
        ("a\u2028b\x0bc".encode(), ["a\u2028b\x0bc"]),
    ],
)
async def test_lines_are_numbered_and_split_at_line_feeds_only(
    data: bytes, lines: list[str]
) -> None:
    outcome = await _read({"f.txt": data}, path="f.txt")
    assert outcome == ToolOutcome(_numbered(*lines), ok=True, truncated=False)


async def test_an_empty_file_and_an_empty_folder_say_so() -> None:
    assert (await _read({"e": b""}, path="e")).content == "e is an empty file"
    assert (await _read({}, path=".")).content == ". is an empty folder"


async def test_a_page_ends_with_how_to_go_on() -> None:
    files = {"f": b"\n".join(b"line %d" % number for number in range(1, 11))}
    outcome = await _read(files, path="f", offset=3, limit=2)
    assert outcome.content == "3\tline 3\n4\tline 4\n… 6 more of 10; use offset=5"
    outcome = await _read(files, path="f", offset=9, limit=5)
    assert outcome.content == "9\tline 9\n10\tline 10"


async def test_two_thousand_lines_are_a_page_whatever_is_asked_for() -> None:
    outcome = await _read({"f": b"x\n" * 2001}, path="f", limit=9999)
    assert outcome.content.endswith("2000\tx\n… 1 more of 2001; use offset=2001")


async def test_pages_of_a_large_file_fit_the_bound_and_lead_through_the_whole_of_it() -> None:
    lines = [f"{number} " + "ü" * (number % 97) for number in range(3000)]
    files = {"f": "\n".join(lines).encode()}
    seen: list[str] = []
    while len(seen) < len(lines):
        outcome = await _read(files, path="f", offset=len(seen) + 1)
        assert (outcome.ok, outcome.truncated) == (True, False)
        assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES
        page = [line for line in outcome.content.split("\n") if not line.startswith("…")]
        seen += [line.partition("\t")[2] for line in page]
    assert seen == lines


async def test_a_long_line_is_cut_and_says_how_much_is_missing() -> None:
    outcome = await _read({"f": b"x" * 2500 + b"\nb"}, path="f")
    assert outcome.content == _numbered("x" * 2000 + "… [500 more characters in this line]", "b")


async def test_an_offset_behind_the_end_says_where_the_end_is() -> None:
    outcome = await _read({"f": b"a\nb"}, path="f", offset=3)
    assert outcome == ToolOutcome(
        "f has only 2 lines; use an offset up to that.", ok=False, truncated=False
    )


@pytest.mark.parametrize(
    ("data", "line", "note"),
    [
        (b"caf\xe9", "café", "LATIN-1"),
        ("ab\r\n\u20ac".encode("utf-16"), "ab", "UTF-16-LE"),
        (b"\xfe\xff" + "\u20ac".encode("utf-16-be"), "\u20ac", "UTF-16-BE"),
    ],
)
async def test_text_in_another_encoding_is_read_and_says_so(
    data: bytes, line: str, note: str
) -> None:
    content = (await _read({"f": data}, path="f")).content
    assert content.startswith(f"1\t{line}\n")
    assert content.endswith(f"\n[the file is in {note}, no UTF-8; edit and write keep that]")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (
            b"\x89PNG\r\n\x1a\n..",
            "a PNG image of 10 bytes. A tool's result cannot hold images: ask the person to attach "
            "it to a message.",
        ),
        (b"\xff\xd8\xff\xe0", "a JPEG image of 4 bytes. A tool's result cannot hold images"),
        (b"GIF89a", "a GIF image of 6 bytes. A tool's result cannot hold images"),
        (b"RIFF\x04\0\0\0WEBPVP8 ", "a WebP image of 16 bytes. A tool's result cannot hold"),
        (b"%PDF-1.7\n", "a PDF document of 9 bytes. Only text can be read: have it converted"),
        (b"PK\x03\x04", "a zip archive of 4 bytes. Only text can be read."),
        (b"a\0b", "a binary file of 3 bytes. Only text can be read."),
        (b"\xff\xfe\0\0a\0\0\0", "a binary file of 8 bytes. Only text can be read."),
        (b"\xff\xfea", "a binary file of 3 bytes. Only text can be read."),
        (b"\xe9\x01", "a binary file of 2 bytes. Only text can be read."),
    ],
)
async def test_what_is_no_text_is_named_with_what_to_do_whatever_it_is_called(
    data: bytes, what: str
) -> None:
    outcome = await _read({"f.txt": data}, path="f.txt")
    assert not outcome.ok
    assert outcome.content.startswith(f"f.txt is {what}")


async def test_a_kept_output_is_read_in_pages(tmp_path: Path) -> None:
    session = ToolSession(spill=Spill(tmp_path / "outputs"))
    kept = await session.spill.keep("one\ntwo\nthree\n")
    assert kept is not None
    caller = Caller(VirtualSandbox(), session=session)
    assert await caller.told("read", path=kept, offset=2, limit=1) == (
        "2\ttwo\n… 1 more of 3; use offset=3"
    )
    assert await caller.refused("read", path="output://99.txt") == (
        "There is no kept output 'output://99.txt': it is gone, or never was."
    )
    await session.close()


async def test_a_secret_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    assert (await _read({"f": b"key=sk-0123456789"}, path="f")).content == (
        "1\tkey=[secret OPENAI_API_KEY]"
    )


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("docs/REDME.md", "There is no file 'docs/REDME.md'. Did you mean docs/README.md?"),
        ("docs/zzzz", "There is no file 'docs/zzzz'. Its folder holds: README.md, guide/."),
        ("dosc/x", "There is no file 'dosc/x', nor a folder 'dosc'."),
    ],
)
async def test_a_missing_file_names_what_is_near(path: str, content: str) -> None:
    files = {"docs/README.md": b"", "docs/guide/one.md": b""}
    assert await _read(files, path=path) == ToolOutcome(content, ok=False, truncated=False)


async def test_a_missing_file_in_a_full_folder_names_only_some() -> None:
    content = (await _read({f"{n:03}": b"" for n in range(50)}, path="zzz")).content
    assert content.endswith("008, 009, …")


async def test_a_missing_file_in_an_empty_folder_says_so() -> None:
    assert (await _read({}, path="a")).content == "There is no file 'a'. Its folder is empty."


async def test_a_folder_lists_its_entries_in_pages() -> None:
    files = {"d/b.txt": b"", "d/a/x": b"", "d/c.txt": b""}
    assert (await _read(files, path="d")).content == "d is a folder:\na/\nb.txt\nc.txt"
    assert (await _read(files, path="d", limit=1)).content == (
        "d is a folder:\na/\n… 2 more of 3; use offset=2"
    )


async def test_a_path_that_leads_outside_is_refused_plainly() -> None:
    assert await _read({}, path="../x") == ToolOutcome(
        "read failed: the path leads outside the folder that this agent works in",
        ok=False,
        truncated=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every file name is text")
async def test_a_name_that_is_no_text_hides_none_of_its_folder(tmp_path: Path) -> None:
    for name in (b"a.txt", b"caf\xe9.txt", b"z.txt"):
        (tmp_path / os.fsdecode(name)).touch()
    context = ToolContext(sandbox=LocalSandbox(tmp_path))
    outcome = await run_call(ToolCall("1", "read", {"path": "."}), BUILTIN, context)
    listing = ". is a folder:\na.txt\ncaf\ufffd.txt\nz.txt"
    assert outcome == ToolOutcome(listing, ok=True, truncated=False)
