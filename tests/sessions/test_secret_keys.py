"""A prompt's key that holds a secret: kept nowhere, told nobody, and it still runs once."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, Request
from support.person import on, pair, stored, write_config
from support.waiting import until_seen
from treadle.folders import DATA_VARIABLE, LOG_VARIABLE

TOKEN = "tok-0123456789abcdef"
KEY = f"job of {TOKEN}"
HASH = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()


class Numbered:
    """A model that numbers its answers, so that a second run would show; the first may wait."""

    def __init__(self, *, waits: bool = False) -> None:
        self.calls = 0
        self.first = Answer("Answer 1", pause_after=1 if waits else None)

    def __call__(self, request: Request) -> Answer:
        self.calls += 1
        return self.first if self.calls == 1 else Answer(f"Answer {self.calls}")


def name_the_token() -> None:
    write_config('[secrets]\nnames = ["MY_TOKEN"]')


async def ask(client: Daemon, text: str = "a", **members: Any) -> Any:
    return await client.request("session/prompt", pair("s", prompt=text, key=KEY, **members))


async def is_refused(client: Daemon, **members: Any) -> None:
    with pytest.raises(RpcError) as used:
        await ask(client, "another", **members)
    assert (used.value.code, used.value.data) == (-32602, {"path": "key"})


def kept_keys(instance: str = "s") -> list[str]:
    """The keys in a thread, in order."""
    lines = map(json.loads, stored("assistant", instance).read_text().splitlines())
    records = [line.get("turn") or line.get("steered") for line in lines]
    return [record["key"] for record in records if isinstance(record, dict) and "key" in record]


def everything(folder: str) -> str:
    files = [path for path in sorted(Path(os.environ[folder]).rglob("*")) if path.is_file()]
    assert files
    return "".join(path.read_text(errors="replace") for path in files)


async def test_a_key_that_holds_a_secret_is_kept_as_its_hash_and_shown_nowhere(
    tmp_path: Path,
) -> None:
    name_the_token()
    model = Numbered()
    said: list[Any] = []
    with (tmp_path / "stderr").open("wb") as stderr:
        async with ModelServer(model) as server:
            env = on(server) | {"MY_TOKEN": TOKEN}
            for _ in range(2):
                async with daemon("--log-level", "debug", env=env, stderr=stderr) as client:
                    client.notify("$/setTrace", {"value": "verbose"})
                    outcomes = [await ask(client), await ask(client)]
                    assert [one["text"] for one in outcomes] == ["Answer 1"] * 2
                    await is_refused(client)
                    said += client.log
                    assert await client.end() == 0

    assert (model.calls, kept_keys()) == (1, [HASH])
    places = [json.dumps(said), everything(DATA_VARIABLE), everything(LOG_VARIABLE)]
    places.append((tmp_path / "stderr").read_text())
    assert [place for place in places if TOKEN in place] == []


async def test_a_key_without_a_secret_is_kept_as_it_is() -> None:
    name_the_token()
    async with ModelServer(Numbered()) as server, daemon(env=on(server)) as client:
        await ask(client)
    assert kept_keys() == [KEY]


async def test_a_prompt_that_enters_a_turn_under_such_a_key_runs_once_too() -> None:
    name_the_token()
    model = Numbered(waits=True)
    async with ModelServer(model) as server:
        env = on(server) | {"MY_TOKEN": TOKEN}
        async with daemon(env=env) as client:
            running = client.ask("session/prompt", pair("s", prompt="count"))
            await client.until(lambda: bool(client.of("session/delta", "s")))
            said = pair("s", prompt="a", key=KEY, whenBusy="steer")
            entering = [client.ask("session/prompt", said)]
            # Keys are looked up side by side: from here on it is the first.
            await until_seen(lambda: b'{"steered"' in stored("assistant", "s").read_bytes())
            entering.append(client.ask("session/prompt", said))
            await is_refused(client, whenBusy="steer")
            model.first.go_on.set()
            outcomes = [await running, *[await one for one in entering], await ask(client)]
        async with daemon(env=env) as client:
            outcomes.append(await ask(client))
            await is_refused(client)

    assert outcomes == [outcomes[0]] * 5
    assert (model.calls, kept_keys()) == (2, [HASH])
    assert TOKEN not in stored("assistant", "s").read_text()


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_key_runs_once_also_when_it_becomes_a_secret_meanwhile(restarts: bool) -> None:
    model = Numbered()
    async with ModelServer(model) as server:
        env = on(server) | {"MY_TOKEN": TOKEN}
        async with daemon(env=env) as client:
            outcomes = [await ask(client)]
            name_the_token()
            if not restarts:
                # A turn of its own, which reads the configuration anew.
                await client.request("session/prompt", pair("other", prompt="x", key=KEY))
                outcomes.append(await ask(client))
                await is_refused(client)
                assert kept_keys("other") == [HASH]
        async with daemon(env=env) as client:
            outcomes.append(await ask(client))
            await is_refused(client)

    assert outcomes == [outcomes[0]] * len(outcomes)
    # What is in the file stays as it is: a thread is append-only.
    assert kept_keys() == [KEY]


async def test_a_key_that_runs_while_it_becomes_a_secret_is_answered_by_that_turn() -> None:
    model = Numbered(waits=True)
    async with (
        ModelServer(model) as server,
        daemon(env=on(server) | {"MY_TOKEN": TOKEN}) as client,
    ):
        first = client.ask("session/prompt", pair("s", prompt="a", key=KEY))
        await client.until(lambda: bool(client.of("session/delta", "s")))
        name_the_token()
        await client.request("session/prompt", pair("other", prompt="x"))
        second = client.ask("session/prompt", pair("s", prompt="a", key=KEY))
        await is_refused(client)
        model.first.go_on.set()
        assert await second == await first

    assert (model.calls, kept_keys()) == (2, [KEY])


async def test_a_key_runs_once_also_when_it_is_a_secret_no_longer() -> None:
    name_the_token()
    model = Numbered()
    async with ModelServer(model) as server:
        async with daemon(env=on(server) | {"MY_TOKEN": TOKEN}) as client:
            outcome = await ask(client)
        write_config("")
        async with daemon(env=on(server)) as client:
            assert await ask(client) == outcome
            await is_refused(client)

    assert (model.calls, kept_keys()) == (1, [HASH])


async def test_a_key_of_a_thread_in_memory_runs_once_too() -> None:
    write_config('[sessions]\ndurability = "memory"\n[secrets]\nnames = ["MY_TOKEN"]')
    model = Numbered()
    async with (
        ModelServer(model) as server,
        daemon(env=on(server) | {"MY_TOKEN": TOKEN}) as client,
    ):
        outcome = await ask(client)
        assert await ask(client) == outcome
        await client.request("session/close", pair("s"))
        assert await ask(client) == outcome
        await is_refused(client)
    assert model.calls == 1
