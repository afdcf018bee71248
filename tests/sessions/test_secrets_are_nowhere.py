"""A secret that is said in every way there is: it is kept nowhere, told nobody, and still used."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, pair, stored, write_agent, write_config
from treadle.folders import DATA_VARIABLE, LOG_VARIABLE

KEY = "sk-live-0123456789abcdef"
OWN = "own-key-of-one-agent-77"
TOKEN = 'ghp "quoted\\token" 0123'

SECRETS = {"OPENAI_API_KEY": KEY, "OWN_KEY": OWN, "MY_TOKEN": TOKEN}
SHOWN = [f"[secret {name}]" for name in SECRETS]

ALL = f"{KEY} and {OWN} and {TOKEN}"
ALL_SHOWN = " and ".join(SHOWN)


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """What a person has set up; returns the environment that holds their secrets."""
    write_config('[secrets]\nnames = ["MY_TOKEN"]')
    write_agent("keyed", model="m", base_url="http://127.0.0.1:1/v1", api_key_env="OWN_KEY")
    # The last line is cut by the tool, in the middle of a secret.
    (tmp_path / "secrets.txt").write_text(f"{ALL}\n{'x' * 1990}{KEY}\n")
    return SECRETS


def forms() -> Iterator[str]:
    """Every form in which a secret could get out, and the parts that a cut would leave."""
    for value in SECRETS.values():
        yield from (value, json.dumps(value)[1:-1], json.dumps(json.dumps(value))[3:-3])
        yield base64.b64encode(value.encode()).decode().rstrip("=")[:-1]
        yield value[:12]


def letters(text: str) -> list[str]:
    """Split a text into single letters, as no model does and a test should."""
    return list(text)


def indiscreet(request: Request) -> Answer:
    """Say all that is secret: aloud, in thoughts, letter by letter, to a tool, in base64."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Answer(f"It says: {ALL}", reasoning=f"Hm, {ALL}")
    match last_user_text(request).partition(" ")[0]:
        case "read":
            arguments: dict[str, Any] = {"path": "secrets.txt", ALL: [ALL, {"deep": KEY}]}
            return Answer("I look.", calls=[("read", {"path": "secrets.txt"}), ("x", arguments)])
        case "unread":
            return Answer(calls=[("read", f'{{"path": {json.dumps(ALL)}')])
        case "break":
            pieces = letters(f"So: {ALL} ")
            return Answer(pieces, drop_after=len(pieces))
        case "refuse":
            return Answer(status=401, error={"message": f"Incorrect API key: {KEY}, {TOKEN}"})
        case "long":
            return Answer(status=400, error={"message": f"{'x' * 380} {TOKEN} {ALL}"})
        case _:
            packed = base64.b64encode(KEY.encode()).decode()
            return Answer(letters(f"{ALL}. {packed}"), reasoning=letters(ALL))


async def say_everything(client: Daemon) -> None:
    """Have all that is secret said by everybody who can say something."""
    answer = await client.request(
        "session/prompt",
        pair("a", prompt=f"say {ALL}", partialResultToken="p", workDoneToken="w"),
    )
    assert answer["text"] == ""
    read = await client.request("session/prompt", pair("a", prompt="read it"))
    assert read["text"] == f"It says: {ALL_SHOWN}"
    for prompt in ("unread", "break", "refuse", "long"):
        refused = contextlib.nullcontext() if prompt == "unread" else pytest.raises(RpcError)
        with refused:
            await client.request(
                "session/prompt", pair("a", prompt=f"{prompt} {ALL}", workDoneToken=prompt)
            )
    await client.request("session/steer", pair("b", text=f"steered {ALL}"))
    await client.until(lambda: bool(client.of("session/done", "b")))
    with pytest.raises(RpcError, match="unreachable"):
        await client.request("session/prompt", pair("c", "keyed", prompt=f"Hi {OWN}"))
    for view in ("full", "model"):
        for instance in ("a", "b"):
            await client.request("session/read", pair(instance, view=view))
    with pytest.raises(RpcError):
        await client.request(f"session/{KEY}")
    with pytest.raises(RpcError):
        await client.request("session/read", pair("a", cursor=KEY, view=KEY))


def everything(folder: str) -> str:
    """Return all that lies in a folder, with the names of its files."""
    files = [path for path in sorted(Path(os.environ[folder]).rglob("*")) if path.is_file()]
    assert files
    return "".join(f"{path}\n{path.read_text(errors='replace')}\n" for path in files)


async def test_a_secret_is_in_no_thread_event_error_or_log_whoever_says_it(
    person: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / "stderr").open("wb") as stderr:
        async with (
            ModelServer(indiscreet) as server,
            daemon(
                "--log-level", "debug", env=on(server) | person, stderr=stderr, initialize=False
            ) as client,
        ):
            await client.initialize(rootUri=tmp_path.as_uri())
            await asyncio.wait_for(say_everything(client), 60)
            assert await client.end() == 0

    said = json.dumps(client.log, ensure_ascii=False)
    kept = everything(DATA_VARIABLE)
    places = {
        "frames": said,
        "data": kept,
        "log": everything(LOG_VARIABLE),
        "stderr": (tmp_path / "stderr").read_text(),
        "model": json.dumps(server.requests, ensure_ascii=False),
    }
    found = [(name, form) for name, text in places.items() for form in forms() if form in text]
    assert found == []

    # It was there to be told, and the key went where it belongs.
    for shown in SHOWN:
        assert shown in said and shown in kept and shown in places["model"]
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    deltas = dict.fromkeys(("text", "reasoning"), "")
    for event in client.of("session/delta", "b"):
        deltas[event["kind"]] += event["text"]
    assert deltas == {"text": f"{ALL_SHOWN}. [secret OPENAI_API_KEY]", "reasoning": ALL_SHOWN}


async def test_what_a_tool_is_called_with_is_what_the_thread_says(
    person: dict[str, str], tmp_path: Path
) -> None:
    async with (
        ModelServer(indiscreet) as server,
        daemon(env=on(server) | person, initialize=False) as client,
    ):
        await client.initialize(rootUri=tmp_path.as_uri())
        await client.request("session/prompt", pair("a", prompt="read it"))
    lines = [json.loads(line) for line in stored("assistant", "a").read_text().splitlines()]
    _, call = next(line["tool_calls"] for line in lines if "tool_calls" in line)
    shown = {
        "path": "secrets.txt",
        ALL_SHOWN: [ALL_SHOWN, {"deep": "[secret OPENAI_API_KEY]"}],
    }
    assert call["arguments"] == shown
    (told,) = [each for each in client.of("session/toolCall") if each["name"] == "x"]
    assert told["arguments"] == shown
    result = next(line["content"] for line in lines if line.get("tool_call_id") == "call_0")
    assert result.splitlines()[0] == f"1\t{ALL_SHOWN}"


async def test_a_secret_named_while_the_daemon_runs_is_hidden_from_the_next_turn_on() -> None:
    def echo(request: Request) -> Answer:
        return Answer(last_user_text(request))

    env = {"NEW_TOKEN": "tok-0123456789"}
    async with ModelServer(echo) as server, daemon(env=on(server) | env) as client:
        before = await client.request("session/prompt", pair("a", prompt="tok-0123456789"))
        # An agent that nobody has prompted yet names it.
        write_agent("other", api_key_env="NEW_TOKEN")
        after = await client.request("session/prompt", pair("a", prompt="tok-0123456789"))
    assert (before["text"], after["text"]) == ("tok-0123456789", "[secret NEW_TOKEN]")
