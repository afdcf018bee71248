"""Who is asked for permission: our request, else LSP's dialog, else nobody; and what is a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.approving import (
    AGENT,
    DIALOG,
    PERMISSION,
    asked,
    careful_agent,
    client_that,
    decisions,
    here,
    states,
    write,
)
from support.daemon import daemon

OPTED_IN = client_that(requestPermission=True)

NO_ANSWERS: list[Any] = [
    {},
    {"outcome": "yes"},
    {"outcome": "ALLOW_ONCE"},
    {"outcome": True},
    {"outcome": ["allow_once"]},
    {"allow_once": True},
    None,
    "allow_once",
    ["allow_once"],
    1,
]


@pytest.mark.parametrize("result", NO_ANSWERS, ids=json.dumps)
async def test_what_is_no_clear_answer_is_a_no(result: Any, tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        client.answers[PERMISSION] = lambda _: result
        assert (await client.request("session/prompt", here(prompt="Go")))["text"] == "Done."
        assert decisions()[-1] == ("write", "deny", "nobody")
        assert not list(work.iterdir())


async def test_a_client_that_answers_with_an_error_has_said_no(tmp_path: Path) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        running = client.ask("session/prompt", here(prompt="Go"))
        await client.until(lambda: len(client.asked) == 1)
        error = {"code": -32601, "message": "what?"}
        client.send({"jsonrpc": "2.0", "id": client.asked[0]["id"], "error": error})
        await running
        assert decisions()[-1] == ("write", "deny", "nobody")
        assert not list(work.iterdir())


CHOICES: list[tuple[Any, str]] = [
    ({"title": "Allow"}, "allow_once"),
    ({"title": "Allow for this session", "extra": 1}, "allow_session"),
    ({"title": "Deny"}, "deny"),
    (None, "deny"),
    ({"title": "Yes"}, "deny"),
    ({"title": ["Allow"]}, "deny"),
    ("Allow", "deny"),
    ([], "deny"),
]


@pytest.mark.parametrize(("chosen", "outcome"), CHOICES)
async def test_an_editor_without_our_requests_shows_lsps_dialog(
    chosen: Any, outcome: str, tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities={"window": {"showMessage": {}}})
        client.answers[DIALOG] = lambda _: chosen
        assert (await client.request("session/prompt", here(prompt="Go")))["text"] == "Done."
        (params,) = asked(client, DIALOG)
        titles = [action["title"] for action in params["actions"]]
        assert titles == ["Allow", "Allow for this session", "Deny"]
        assert params["type"] == 2
        assert params["message"].startswith(f"{AGENT} · test wants: write a.txt")
        assert "+hello" in params["message"]
        assert decisions()[-1][1] == outcome
        assert (work / "a.txt").exists() == (outcome != "deny")


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"window": {}},
        {"window": {"showMessage": False}},
        {"window": True},
        client_that(ask=True),
        client_that(requestPermission=False),
    ],
    ids=json.dumps,
)
async def test_a_silent_client_is_never_asked_and_its_calls_are_denied_at_once(
    capabilities: dict[str, Any], tmp_path: Path
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=capabilities)
        assert (await client.request("session/prompt", here(prompt="Go")))["text"] == "Done."
        assert client.asked == []
        assert states(client) == ["running", "idle"]
        assert decisions() == [("write", "deny", "nobody")]
        assert not list(work.iterdir())
