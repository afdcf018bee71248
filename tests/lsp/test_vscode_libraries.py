"""A client on VS Code's own libraries from npm, as an extension's author would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.daemon import SERVE
from support.editors import (
    CANCELLED,
    LONG,
    PIECES_OF_READING,
    READS_THE_NOTES,
    RESULT_OF_READING,
    WORK_OF_READING,
    answer,
    told,
    told_in_whole,
    told_of,
)
from support.model_server import ModelServer
from support.peers import missing, report_of, require_program
from support.person import on, write_agent

CLIENT = Path(__file__).parent / "node" / "client.js"


async def report(folder: Path, *encodings: str) -> Any:
    """Let the client do all it does; return what it saw."""
    node = require_program("node")
    if not CLIENT.with_name("node_modules").is_dir():
        missing(f"needs `npm ci` in {CLIENT.parent}, which was not run")
    (folder / "work").mkdir()
    (folder / "work" / "notes.txt").write_text("pelican\n", encoding="utf-8")
    write_agent("inbox", "You sort mail.")
    task = {
        "command": SERVE,
        "positionEncodings": encodings,
        "folder": str(folder / "work"),
    }
    async with ModelServer(answer) as server:
        return await report_of(node, str(CLIENT), json.dumps(task), env=on(server))


@pytest.mark.parametrize("encodings", [("utf-16",), ("utf-16", "utf-8")])
async def test_an_extension_on_vs_code_s_libraries_gets_all_that_an_editor_needs(
    encodings: tuple[str, ...], tmp_path: Path
) -> None:
    seen = await report(tmp_path, *encodings)
    capabilities = seen["hello"]["capabilities"]
    assert seen["hello"]["serverInfo"]["name"] == "treadle"
    assert capabilities["positionEncoding"] == encodings[-1]
    assert capabilities["textDocumentSync"] == {"openClose": True, "change": 2, "save": True}
    assert "treadle.session.prompt" in capabilities["executeCommandProvider"]["commands"]
    assert capabilities["experimental"]["treadle"]["protocolVersion"] == 1
    _check_prompts(seen)
    _check_documents(seen["documents"])
    _check_commands(seen)
    _check_errors(seen["unknown"]["result"])
    _check_trace(seen["trace"])
    assert seen["exit"] == {"code": 0, "signal": None}
    assert (seen["troubles"], seen["output"], seen["complaints"]) == ([], "only frames", "")


def _check_prompts(seen: dict[str, Any]) -> None:
    assert seen["prompt"]["result"] == RESULT_OF_READING
    assert told(seen["prompt"]["heard"]) == READS_THE_NOTES
    numbers = [each["params"]["seq"] for each in seen["prompt"]["heard"]]
    assert numbers == list(range(1, len(numbers) + 1))

    progress = told(seen["progress"]["heard"])
    assert seen["progress"]["result"]["text"] == ""
    assert told_of("work", seen["progress"]["heard"]) == WORK_OF_READING
    assert progress[0][0] == "work begin" and progress[-1][0] == "work end"
    assert told_of("pieces", seen["progress"]["heard"]) == PIECES_OF_READING

    assert seen["cancelRequest"]["result"]["code"] == -32800
    assert told_in_whole(seen["cancelRequest"]["heard"]) == CANCELLED
    assert seen["cancelProgress"]["result"]["stopReason"] == "cancelled"
    assert seen["cancelProgress"]["result"]["text"] == "One two"
    assert told(seen["cancelProgress"]["heard"])[-1] == ("work end", "cancelled")


def _check_documents(scene: dict[str, Any]) -> None:
    documents = scene["result"]
    assert documents["mine"] == "one 😀 è\r\nyw\r\nei two\n2 😀🦩🦩!\n"
    assert documents["opened"] == f"Contents of {documents['uri']}:\n{documents['mine']}"
    assert documents["closed"] == f"See {documents['uri']} (notes)"
    # Settings may be asked for anew when they change, so the editor is asked to tell of that.
    method = "workspace/didChangeConfiguration"
    assert scene["asked"] == [
        {
            "method": "client/registerCapability",
            "params": {"registrations": [{"id": method, "method": method}]},
        }
    ]


def _check_commands(seen: dict[str, Any]) -> None:
    configuration, dialog, progress = seen["dialog"]["asked"]
    assert configuration["params"] == {"items": [{"section": "treadle"}]}
    assert dialog == {
        "method": "window/showMessageRequest",
        "params": {
            "type": 3,
            "message": "Which agent?",
            "actions": [{"title": "assistant"}, {"title": "inbox"}],
        },
    }
    assert progress["method"] == "window/workDoneProgress/create"
    heard = seen["dialog"]["heard"]
    # It begins when the editor has agreed, and so anywhere in the turn, or not at all.
    shown = [each["params"] for each in heard if each["method"] == progress["params"]["token"]]
    if shown:
        assert shown[0] == {"kind": "begin", "title": "inbox · default", "cancellable": True}
        assert shown[-1] == {"kind": "end", "message": "end_turn"}
    assert heard[-1] == {"method": "message", "params": {"type": 3, "message": "What is new?"}}
    assert seen["dialog"]["result"]["text"] == "What is new?"

    asked = [each["method"] for each in seen["configured"]["asked"]]
    assert asked == ["workspace/configuration", "window/workDoneProgress/create"]
    instances = {each["params"].get("instance") for each in seen["configured"]["heard"]}
    assert instances - {None} == {"from settings"}

    assert seen["showDocument"]["result"] == {"text": LONG + "\n", "mode": 0o600}
    assert not [each for each in seen["showDocument"]["heard"] if each["method"] == "message"]


def _check_errors(errors: dict[str, Any]) -> None:
    assert {name: (error["code"], error.get("data")) for name, error in errors.items()} == {
        "request": (-32601, None),
        "lsp": (-32601, None),
        "command": (-32602, {"path": "command"}),
        "params": (-32602, {"path": "prompt"}),
        "agent": (-32803, {"reason": "unknown_agent"}),
    }


def _check_trace(scene: dict[str, Any]) -> None:
    traced = scene["result"]
    assert [each["message"].split(" after ")[0] for each in traced] == ["session/close: ok"] * 2
    assert [each["data"].split(" ", 1)[1] for each in traced] == ["bytes wait to be read"] * 2


def test_the_lock_file_of_the_client_names_no_host() -> None:
    lock = json.loads(CLIENT.with_name("package-lock.json").read_text(encoding="utf-8"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert set(packages) == {
        "node_modules/vscode-jsonrpc",
        "node_modules/vscode-languageserver-protocol",
        "node_modules/vscode-languageserver-types",
    }
    assert all("integrity" in each and "resolved" not in each for each in packages.values())
