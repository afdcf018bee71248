"""Neovim, headless, with the client that it brings along: as it is installed, and a newer one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import SERVE
from support.editors import (
    CANCELLED,
    PIECES_OF_READING,
    READS_THE_NOTES,
    RESULT_OF_READING,
    WORK_OF_READING,
    answer,
    told,
    told_in_whole,
    told_of,
)
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.peers import installed_neovim, newer_neovim, report_of
from support.person import on, write_agent

CLIENT = Path(__file__).parent / "neovim" / "client.lua"

# What the client's script leaves of the document, first as it typed it, then with a line moved.
AS_TYPED = "one 😀 è\nnew\n\nywei two\ntwo 🦩🦩😀!\n"
MOVED = "two 🦩🦩😀!\none 😀 è\nnew\n\nywei two\n"


@pytest.mark.parametrize("neovim", [installed_neovim, newer_neovim])
async def test_neovim_s_own_client_gets_all_that_it_can_use(
    neovim: Callable[[], str], tmp_path: Path
) -> None:
    program = neovim()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("pelican\n", encoding="utf-8")
    write_agent("inbox", "You sort mail.")
    draft = tmp_path / "work" / "draft.txt"
    draft.write_text("one\ntwo\nthree", encoding="utf-8")
    write_agent("coder", sandbox="local", permissions="auto")
    task = json.dumps({"command": SERVE, "folder": str(tmp_path / "work")})
    async with ModelServer(_answer) as server:
        env = {**on(server), "TREADLE_TASK": task, "XDG_STATE_HOME": str(tmp_path / "state")}
        seen = await report_of(program, "--clean", "--headless", "-n", "-S", str(CLIENT), env=env)

    knows_encodings = (seen["version"]["major"], seen["version"]["minor"]) >= (0, 11)
    assert seen["encoding"] == ("utf-8" if knows_encodings else "utf-16")
    assert seen["hello"]["positionEncoding"] == seen["encoding"]
    assert seen["hello"]["textDocumentSync"] == {"openClose": True, "change": 2, "save": True}
    _check_prompts(seen)
    _check_documents(seen["documents"]["result"])
    _check_edits(seen["edits"])
    assert draft.read_text(encoding="utf-8") == "one\ntwo\nthree"
    _check_the_command(seen["dialog"])
    assert {
        name: (answer["error"]["code"], answer["error"].get("data"))
        for name, answer in seen["unknown"]["result"].items()
    } == {
        "request": (-32601, None),
        "command": (-32602, {"path": "command"}),
        "params": (-32602, {"path": "prompt"}),
    }
    assert seen["exit"] == {"code": 0, "signal": 0}


def _answer(request: Request) -> Answer:
    """Edit the draft where asked to; else what the tests of all editors share."""
    if last_user_text(request) != "Edit the draft":
        return answer(request)
    done = sum(message["role"] == "tool" for message in request["messages"])
    edits = [{"old": "zwei 😀", "new": "deux 🦩\nand more"}, {"old": "three", "new": "drei 😀"}]
    calls = [("read", {"path": "draft.txt"}), ("edit", {"path": "draft.txt", "edits": edits})]
    return Answer(calls=[calls[done]]) if done < len(calls) else Answer("Done.")


def _check_edits(scene: dict[str, Any]) -> None:
    edited = scene["result"]
    read, wrote = (
        each["params"]["content"]
        for each in scene["heard"]
        if each["method"] == "session/toolResult"
    )
    assert read == "1\tone\n2\tzwei 😀\n3\tthree"
    assert "The change is in the editor, unsaved" in wrote
    assert edited["shown"] == ["one", "deux 🦩", "and more", "drei 😀"]
    assert edited["modified"] is True
    assert edited["answer"]["result"]["text"] == "Done."


def _check_prompts(seen: dict[str, Any]) -> None:
    assert seen["prompt"]["result"] == {"result": RESULT_OF_READING}
    assert told(seen["prompt"]["heard"]) == READS_THE_NOTES
    assert told_of("work", seen["progress"]["heard"]) == WORK_OF_READING
    assert told_of("pieces", seen["progress"]["heard"]) == PIECES_OF_READING
    assert told_in_whole(seen["cancelRequest"]["heard"]) == CANCELLED
    assert seen["cancelProgress"]["result"]["result"]["stopReason"] == "cancelled"
    assert told(seen["cancelProgress"]["heard"])[-1] == ("work end", "cancelled")


def _check_documents(documents: dict[str, Any]) -> None:
    for name, line_end in (("unix", "\n"), ("dos", "\r\n")):
        edited = documents[name]
        for state, text in (("changed", MOVED), ("undone", AS_TYPED)):
            wanted = text.replace("\n", line_end)
            assert edited[state]["mine"] == wanted
            assert edited[state]["daemons"] == f"Contents of {edited['uri']}:\n{wanted}"
        assert edited["closed"] == f"See {edited['uri']} (notes)"


def _check_the_command(scene: dict[str, Any]) -> None:
    configuration, dialog = scene["asked"]
    assert configuration["params"] == {"items": [{"section": "treadle"}]}
    assert dialog["params"] == {
        "type": 3,
        "message": "Which agent?",
        "actions": [{"title": "assistant"}, {"title": "coder"}, {"title": "inbox"}],
    }
    assert scene["result"]["result"]["text"] == "What is new?"
    assert scene["heard"][-1] == {
        "method": "message",
        "params": {"type": 3, "message": "What is new?"},
    }
    assert {each["params"].get("agent") for each in scene["heard"]} - {None} == {"inbox"}
