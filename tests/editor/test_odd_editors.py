"""Editors that are slow, silent or odd: nothing is lost, nothing hangs, nothing gathers."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon, serving_after
from support.documents import changing, link, opening, seen
from support.model_server import ModelServer, echo
from support.person import conversation, on, pair, write_agent
from treadle.server.client_requests import ClientRequests
from treadle.server.editor import tenant
from treadle.server.editor.language_server import language_server
from treadle.server.editor.tenant import LOAD_SECONDS
from treadle.server.introduction import read_hello
from treadle.server.wire.envelope import Notification

DIALOGS = {"window": {"showMessage": {}}}
SETTINGS = {"workspace": {"configuration": True}}

# Half of what an import that hangs is waited for, and far more than a close may take.
SOON_SECONDS = LOAD_SECONDS / 2


def ask_to_prompt(client: Daemon, text: str) -> asyncio.Future[Any]:
    """Send what a person types who names nothing but the text."""
    command = {"command": "treadle.session.prompt", "arguments": [text]}
    return client.ask("workspace/executeCommand", command)


@pytest.mark.parametrize(
    ("opened", "linked"),
    [
        ("file:///c%3A/x/a%20b.txt", "file:///C:/x/a b.txt"),
        ("file:///C:/x/a b.txt", "file:///c%3A/x/a%20b.txt"),
        ("file:///home/%c3%a9.txt", "file:///home/é.txt"),
        ("untitled:Untitled-1", "untitled:Untitled-1"),
        ("vscode-notebook-cell:/n.ipynb#W0", "vscode-notebook-cell:/n.ipynb#W0"),
    ],
)
async def test_a_link_finds_an_open_document_however_its_address_is_spelled(
    opened: str, linked: str
) -> None:
    async with conversation(echo) as (client, _):
        client.notify("textDocument/didOpen", opening(opened, "here"))
        assert await seen(client, linked) == f"Contents of {linked}:\nhere"


async def test_odd_orders_of_a_document_s_life_spoil_nothing() -> None:
    uri = "untitled:1"
    async with conversation(echo) as (client, _):
        closing = {"textDocument": {"uri": uri}}
        client.notify("textDocument/didClose", closing)
        client.notify("textDocument/didOpen", opening(uri, "one"))
        client.notify("textDocument/didChange", changing(uri, 9, {"text": "nine"}))
        client.notify("textDocument/didChange", changing(uri, 2, {"text": "two"}))
        client.notify("textDocument/didSave", {**closing, "text": "saved"})
        assert await seen(client, uri) == f"Contents of {uri}:\ntwo"
        client.notify("textDocument/didOpen", opening(uri, "opened again"))
        assert await seen(client, uri) == f"Contents of {uri}:\nopened again"
        client.notify("textDocument/didClose", closing)
        client.notify("textDocument/didClose", closing)
        client.notify("textDocument/didChange", changing(uri, 10, {"text": "late"}))
        assert await seen(client, uri) == f"See {uri} (it)"


async def test_a_line_of_a_megabyte_is_edited_like_any_other() -> None:
    uri = "file:///long"
    line = "é😀" * 500_000
    cut = {"start": {"line": 0, "character": 30}, "end": {"line": 0, "character": 1_499_970}}
    async with conversation(echo) as (client, _):
        client.notify("textDocument/didOpen", opening(uri, f"{line}\r\nend"))
        client.notify("textDocument/didChange", changing(uri, 2, {"range": cut, "text": "…"}))
        wanted = f"{'é😀' * 10}…{'é😀' * 10}\r\nend"
        assert await seen(client, uri) == f"Contents of {uri}:\n{wanted}"


async def test_the_cells_of_a_notebook_are_documents() -> None:
    book = "file:///n.ipynb"
    cells = [{"kind": 2, "document": f"{book}#{number}"} for number in (1, 2)]
    async with conversation(echo) as (client, _):
        client.notify(
            "notebookDocument/didOpen",
            {
                "notebookDocument": {
                    "uri": book,
                    "notebookType": "jupyter-notebook",
                    "version": 1,
                    "cells": cells,
                },
                "cellTextDocuments": [
                    opening(cell["document"], "x")["textDocument"] for cell in cells
                ],
            },
        )
        change = changing(f"{book}#2", 2, {"text": "y"})
        content = {"document": change["textDocument"], "changes": change["contentChanges"]}
        client.notify(
            "notebookDocument/didChange",
            {
                "notebookDocument": {"uri": book, "version": 2},
                "change": {"cells": {"textContent": [content]}},
            },
        )
        assert await seen(client, f"{book}#1") == f"Contents of {book}#1:\nx"
        assert await seen(client, f"{book}#2") == f"Contents of {book}#2:\ny"


async def test_two_dialogs_stand_at_once_and_each_gets_its_own_answer() -> None:
    write_agent("inbox", "You sort mail.")
    async with conversation(echo, capabilities=DIALOGS) as (client, _):
        # Which of the two is asked first is not said.
        answers = [ask_to_prompt(client, text) for text in ("first", "second")]
        await client.until(lambda: len(client.asked) == 2)
        first, second = client.asked
        for asked, name in ((second, "inbox"), (first, "assistant")):
            reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"title": name}}
            client.send(reply)
            client.send(reply)  # what comes twice is dropped
        texts = [(await answer)["text"] for answer in answers]
        done = client.of("session/done")
    assert texts == ["first", "second"]
    assert sorted(each["agent"] for each in done) == ["assistant", "inbox"]
    assert sorted(each["text"] for each in done) == ["first", "second"]


async def test_settings_of_an_odd_shape_are_none() -> None:
    shapes: list[object] = [None, [], [None], [7], ["x"], {"agent": "x"}, 7, "x", [[]]]
    async with conversation(echo, capabilities=SETTINGS) as (client, _):
        client.answers["workspace/configuration"] = lambda _: shapes[len(client.asked) - 1]
        for number in range(len(shapes)):
            assert (await ask_to_prompt(client, f"Hi {number}"))["text"] == f"Hi {number}"
        assert {each["agent"] for each in client.of("session/done")} == {"assistant"}
        assert len(client.asked) == len(shapes)


async def test_an_editor_that_never_answers_is_waited_for_within_a_bound(
    tmp_path: Path,
) -> None:
    write_agent("inbox", "You sort mail.")
    program = serving_after(
        tmp_path,
        "from treadle.server.editor import language_server as editor",
        "editor.EDITOR_SECONDS = editor.PERSON_SECONDS = 0.05",
    )
    capabilities = {**SETTINGS, "window": {"workDoneProgress": True}}
    async with (
        ModelServer(echo) as server,
        daemon(program=program, env=on(server), initialize=False) as client,
    ):
        await client.initialize(capabilities=capabilities)
        assert (await ask_to_prompt(client, "Hi"))["text"] == "Hi"
        await client.until(lambda: len(client.of("$/cancelRequest")) == 3)
        assert [asked["method"] for asked in client.asked] == [
            "workspace/configuration",
            "window/showMessageRequest",
            "window/workDoneProgress/create",
        ]
        assert [each["id"] for each in client.of("$/cancelRequest")] == [
            asked["id"] for asked in client.asked
        ]
        assert client.of("$/progress") == []


async def test_settings_that_change_with_every_key_are_asked_for_one_at_a_time() -> None:
    async with conversation(echo, capabilities=SETTINGS) as (client, _):
        for _ in range(500):
            client.notify("workspace/didChangeConfiguration", {"settings": None})
        await seen(client, "file:///never/opened")
        await client.until(lambda: bool(client.asked))
        assert len(client.asked) == 1
        client.send({"jsonrpc": "2.0", "id": client.asked[0]["id"], "result": [{}]})
        await client.until(lambda: len(client.asked) == 2)
        client.send({"jsonrpc": "2.0", "id": client.asked[1]["id"], "result": [{}]})
        await client.request("session/list")
        await client.request("session/list")
        assert len(client.asked) == 2


def test_notifications_leave_nothing_behind() -> None:
    server = language_server(
        b'{"capabilities":{}}', "utf-16", ClientRequests(lambda _: None), lambda *_: None
    )

    # pytest keeps every record.
    logging.disable()

    def take(count: int) -> int:
        for number in range(count):
            for method, params in (
                ("textDocument/didOpen", opening("a:b", "text")),
                ("textDocument/didChange", changing("a:b", number, {"text": "more"})),
                ("textDocument/didClose", {"textDocument": {"uri": "a:b"}}),
                ("textDocument/didChange", changing("a:b", number, {"text": "late"})),
                ("workspace/didChangeConfiguration", {"settings": None}),
                ("textDocument/didSave", {"textDocument": {"uri": "a:b"}}),
            ):
                server.protocol.take(Notification(method, json.dumps(params).encode()))
        gc.collect()
        return len(gc.get_objects())

    try:
        take(10)
        before = take(10)
        # One object for each of the notifications would be three thousand.
        assert take(500) - before < 100
    finally:
        logging.disable(logging.NOTSET)


async def test_notifications_that_say_nothing_are_held_back_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant, "PAUSE_ABOVE_BYTES", 256 << 10)
    holds: list[bool] = []
    editor = tenant.Editor(
        hello=read_hello(b"{}"),
        requests=ClientRequests(lambda _: None),
        notify=lambda *_: None,
        hold=holds.append,
        configured=lambda _: None,
    )
    for _ in range(900):
        editor.take(Notification("workspace/didChangeWatchedFiles", b'{"changes":[]}'))
    assert holds == []
    for _ in range(200):
        editor.take(Notification("workspace/didChangeWatchedFiles", b'{"changes":[]}'))
    assert set(holds) == {True}
    assert await editor.text_of("a:b") is None
    assert holds[-1] is False
    await editor.close()


# Loading pygls takes for ever, as from a disk that is gone.
HANGS = (
    "import threading",
    "from treadle.server.editor.tenant import Editor",
    "Editor._load = lambda editor: threading.Event().wait()",
)


@pytest.mark.parametrize(("hangs", "way"), [(True, "exit"), (False, "exit"), (False, "eof")])
async def test_an_end_while_pygls_loads_is_bounded_and_quiet(
    hangs: bool, way: str, tmp_path: Path
) -> None:
    program = serving_after(tmp_path, *(HANGS if hangs else ()))
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        async with daemon(program=program, stderr=stderr) as client:
            client.notify("textDocument/didOpen", opening("a:b", "text"))
            prompt = client.ask("session/prompt", pair("p", prompt=link("a:b")))
            shutdown = client.ask("shutdown") if way == "exit" else None
            if way == "exit":
                client.notify("exit")
            else:
                client.stdin.close()
            async with asyncio.timeout(SOON_SECONDS):
                assert await client.wait() == 0
                if shutdown is not None:
                    assert await shutdown is None
                with pytest.raises((RpcError, EOFError)):
                    await prompt
    assert log.read_text() == ""


async def test_without_pygls_prompts_are_answered_and_documents_are_only_named(
    tmp_path: Path,
) -> None:
    program = serving_after(
        tmp_path,
        "from treadle.server.editor.tenant import Editor",
        "Editor._load = lambda editor: 1 / 0",
    )
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        async with (
            ModelServer(echo) as server,
            daemon(program=program, env=on(server), stderr=stderr) as client,
        ):
            client.notify("textDocument/didOpen", opening("a:b", "x" * (20 << 20)))
            assert await seen(client, "a:b") == "See a:b (it)"
            assert (await ask_to_prompt(client, "Hi"))["text"] == "Hi"
            assert await client.end() == 0
    assert "LSP's own features are not to be had" in log.read_text()
