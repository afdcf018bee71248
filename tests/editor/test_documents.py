"""What an editor has open is what a prompt that links to it means, unsaved text included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from support.daemon import Daemon
from support.documents import changing, opening, seen
from support.model_server import Answer, Request, echo
from support.person import conversation, pair
from treadle.server.editor.documents import Documents

URI = "file:///home/mac/notes.txt"
UTF_8 = {"general": {"positionEncodings": ["utf-16", "utf-8"]}}


def change(start: tuple[int, int], end: tuple[int, int], text: str) -> dict[str, Any]:
    return {
        "range": {
            "start": {"line": start[0], "character": start[1]},
            "end": {"line": end[0], "character": end[1]},
        },
        "text": text,
    }


def open_document(client: Daemon, text: str) -> None:
    client.notify("textDocument/didOpen", opening(URI, text))


def edit(client: Daemon, version: int, *changes: dict[str, Any]) -> None:
    client.notify("textDocument/didChange", changing(URI, version, *changes))


async def test_a_link_to_an_open_document_carries_the_text_that_the_editor_shows() -> None:
    async with conversation(echo) as (client, _):
        open_document(client, "one\ntwo\n")
        edit(client, 2, change((1, 0), (1, 3), "zwei"), change((2, 0), (2, 0), "drei"))
        assert await seen(client, URI) == f"Contents of {URI}:\none\nzwei\ndrei"


async def test_a_link_to_a_document_that_is_closed_is_only_named() -> None:
    async with conversation(echo) as (client, _):
        open_document(client, "one\n")
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        assert await seen(client, URI) == f"See {URI} (it)"


async def test_a_document_that_is_too_large_for_a_prompt_is_only_named() -> None:
    async with conversation(echo) as (client, _):
        open_document(client, "x" * 200_001)
        assert await seen(client, URI) == f"See {URI} (it)"


@pytest.mark.parametrize(
    ("capabilities", "encoding", "column"),
    [({}, "utf-16", 2), (UTF_8, "utf-8", 4), ({"general": {"positionEncodings": []}}, "utf-16", 2)],
)
async def test_positions_count_what_was_agreed_on(
    capabilities: dict[str, Any], encoding: str, column: int
) -> None:
    async with conversation(echo, capabilities=capabilities) as (client, _):
        open_document(client, "😀!\n")
        edit(client, 2, change((0, column), (0, column + 1), "?"))
        assert await seen(client, URI) == f"Contents of {URI}:\n😀?\n"


async def test_the_agreed_encoding_is_utf_8_wherever_the_editor_knows_it() -> None:
    async with conversation(echo, capabilities=UTF_8) as (client, _):
        again = client.log[0]["result"]["capabilities"]["positionEncoding"]
    assert again == "utf-8"


async def test_notifications_that_cannot_be_read_or_done_spoil_nothing() -> None:
    async with conversation(echo) as (client, _):
        open_document(client, "one\n")
        client.notify("textDocument/didChange", {"textDocument": {"uri": URI}})
        client.notify("textDocument/didChange", [1, 2])
        client.notify("textDocument/didOpen", {"textDocument": None})
        client.notify("textDocument/noSuchThing", {"jsonrpc": "2.0"})
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": "all"}})
        edit_of_another = changing("file:///never/opened", 3, {"text": "x"})
        client.notify("textDocument/didChange", edit_of_another)
        edit(client, 2, {"text": "two\n"})
        assert await seen(client, URI) == f"Contents of {URI}:\ntwo\n"
        assert client.strays == [] and not client.of("window/showMessage")


async def test_the_folder_an_editor_moves_to_is_where_its_agents_work(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "notes.txt").write_text("pelican")
    first, second = ((tmp_path / name).as_uri() for name in ("first", "second"))

    def reads(request: Request) -> Answer:
        if request["messages"][-1]["role"] == "tool":
            return Answer(request["messages"][-1]["content"])
        return Answer(calls=[("read", {"path": "notes.txt"})])

    folders = [{"uri": first, "name": "first"}]
    async with conversation(reads, workspaceFolders=folders) as (client, _):
        moved = {"removed": folders, "added": [{"uri": second, "name": "second"}]}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": moved})
        answer = await client.request("session/prompt", pair("f", prompt="Read the notes"))
    assert "pelican" in answer["text"]


ALPHABET = st.text(st.sampled_from("ab\r\n\n\ré😀\u2028\x0c\x85"), max_size=12)


@settings(max_examples=400, deadline=None)
@given(
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32"]),
    text=ALPHABET,
    edits=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), ALPHABET), max_size=6),
)
def test_any_edits_leave_what_the_editor_shows(
    encoding: str, text: str, edits: list[tuple[float, float, str]]
) -> None:
    documents = Documents(None, types.TextDocumentSyncKind.Incremental, [], encoding)
    item = types.TextDocumentItem(uri=URI, language_id="", version=1, text=text)
    documents.put_text_document(item)
    for one, other, new in edits:
        start, end = sorted(round(share * len(text)) for share in (one, other))
        if _splits_a_line_end(text, start) or _splits_a_line_end(text, end):
            continue
        documents.update_text_document(
            types.VersionedTextDocumentIdentifier(version=2, uri=URI),
            types.TextDocumentContentChangePartial(
                range=types.Range(_position(text, start, encoding), _position(text, end, encoding)),
                text=new,
            ),
        )
        text = text[:start] + new + text[end:]
        assert documents.text_of(URI) == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_position_beyond_a_line_or_the_text_is_its_end(encoding: str) -> None:
    documents = Documents(None, types.TextDocumentSyncKind.Incremental, [], encoding)
    item = types.TextDocumentItem(uri=URI, language_id="", version=1, text="ab\r\ncd")
    documents.put_text_document(item)
    for line, expected in ((0, "ab!\r\ncd"), (1, "ab!\r\ncd!"), (9, "ab!\r\ncd!!")):
        at = types.Position(line, 99)
        documents.update_text_document(
            types.VersionedTextDocumentIdentifier(version=2, uri=URI),
            types.TextDocumentContentChangePartial(range=types.Range(at, at), text="!"),
        )
        assert documents.text_of(URI) == expected


def _splits_a_line_end(text: str, offset: int) -> bool:
    return text[offset - 1 : offset + 1] == "\r\n"


def _position(text: str, offset: int, encoding: str) -> types.Position:
    """Return the position of an offset, by LSP's rule for lines, the slow and plain way."""
    line, start = 0, 0
    for index in range(offset):
        is_end = text[index] == "\n" or (
            text[index] == "\r" and text[index + 1 : index + 2] != "\n"
        )
        if is_end:
            line, start = line + 1, index + 1
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    return types.Position(line, len(text[start:offset].encode(codec)) // width)
