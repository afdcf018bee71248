"""A client that stops reading: nothing is lost, nothing grows without bound, and it is told of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, daemon
from support.person import pair, stored, write_config
from support.process import linux_only, resident_bytes, until_dead
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.thread.message import Message, encode_line

# Three sessions say 5 MB each. What the daemon holds of it: their texts, their messages as they
# are written and kept, and what is on its way; without a bound it would be several times as much.
GROWTH_BYTES = 90 << 20

WORDS = 2500  # before a tool call, and as many after it


def _words(first: int) -> str:
    """Return a text of 2.5 MB in which each word is its own."""
    return " ".join(f"{number:0999}" for number in range(first, first + WORDS))


FIRST, SECOND = _words(0), _words(WORDS)


def _ask(client: Daemon, instance: str, **more: Any) -> asyncio.Future[Any]:
    return client.ask("session/prompt", pair(instance, prompt="Speak.", **more))


async def _thread_has(folder: Path, instance: str, count: int) -> None:
    """Wait until a thread holds so many messages; the file tells what the wire does not."""
    await until_seen(lambda: _messages(folder, instance) >= count)


def _messages(folder: Path, instance: str) -> int:
    paths = [path for path in folder.rglob("*.jsonl") if instance in path.name]
    return sum(b'"role"' in line for path in paths for line in path.read_bytes().splitlines())


def _accounted(events: list[dict[str, Any]]) -> list[str]:
    """Check that `seq` and `joined` account for every event; return what they tell, in order."""
    told: list[str] = []
    last_seq = 0
    for event in events:
        params = event["params"]
        assert params["seq"] - params.get("joined", 1) == last_seq
        last_seq = params["seq"]
        if event["method"] == "session/delta" and told and told[-1] == "session/delta":
            continue
        told.append(event["method"])
    return told


@linux_only
async def test_a_client_that_reads_late_gets_everything_in_order_and_costs_a_bounded_memory(
    scripted: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hello")
    # What is said here is no conversation that a model would have to take.
    write_config("[compaction]\nwindow = 20_000_000\n")
    call = {"name": "read", "arguments": {"path": "a.txt"}}
    model = scripted({"text": FIRST, "calls": [call]}, {"text": SECOND})
    silent = tmp_path / "silent.jsonl"
    silent.write_text(json.dumps({"text": "never", "delay_seconds": 3600}))
    async with daemon(env={"TREADLE_MODEL": model}, initialize=False) as client:
        await client.initialize(rootUri=tmp_path.as_uri())
        await client.request("session/resume", pair("warm"))
        before = resident_bytes(client.process.pid)

        client.reading.clear()
        prompts = {name: _ask(client, name) for name in ("one", "two", "three")}
        stuck = _ask(client, "stuck", options={"model": f"scripted:{silent}"})
        for name in prompts:
            await _thread_has(tmp_path / "data", name, 4)
        assert resident_bytes(client.process.pid) - before < GROWTH_BYTES

        client.reading.set()
        cancelled = client.ask("session/cancel", pair("stuck"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            results = {name: await prompt for name, prompt in prompts.items()}
            assert (await cancelled)["cancelled"] is True
            assert (await stuck)["stopReason"] == "cancelled"
        for name in prompts:
            events = [e for e in client.events if e["params"]["instance"] == name]
            assert _accounted(events) == [
                "session/state",
                "session/delta",
                "session/toolCall",
                "session/toolResult",
                "session/delta",
                "session/done",
                "session/state",
            ]
            deltas = client.of("session/delta", name)
            assert "".join(delta["text"] for delta in deltas) == FIRST + SECOND
            assert sum(delta.get("joined", 1) for delta in deltas) == 2 * WORDS
            assert len(deltas) < 2 * WORDS
            assert results[name]["text"] == SECOND
        assert await client.end() == 0


@linux_only
async def test_a_client_that_never_reads_again_is_given_up_loudly(
    scripted: Callable[..., str], serving: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    program = serving("from treadle.server import link", "link.GIVE_UP_ABOVE_BYTES = 3 << 19")
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        env = {"TREADLE_MODEL": scripted({"text": FIRST}, {"text": SECOND})}
        async with daemon(program=program, env=env, stderr=stderr) as client:
            client.reading.clear()
            _ask(client, "one")
            await until_dead(client.process.pid)
            client.reading.set()
            assert await client.wait() == 1
    (line,) = [line for line in log.read_text().splitlines() if "giving up" in line]
    assert line.startswith("treadle: ERROR the client has left ")


async def test_one_reply_beyond_what_may_be_left_unread_ends_no_client_that_reads(
    serving: Callable[..., tuple[str, str]],
) -> None:
    path = stored("assistant", "long")
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_line(Message("user", FIRST)) + b"\n")
    program = serving("from treadle.server import link", "link.GIVE_UP_ABOVE_BYTES = 1 << 20")
    async with daemon(program=program) as client:
        for _ in range(3):
            page = await client.request("session/read", pair("long"))
            assert page["messages"][0]["content"] == FIRST
        assert await client.end() == 0


@linux_only
async def test_a_client_that_reads_nothing_more_does_not_hold_up_the_end(
    scripted: Callable[..., str], tmp_path: Path
) -> None:
    async with daemon(env={"TREADLE_MODEL": scripted({"text": FIRST})}) as client:
        client.reading.clear()
        prompt = _ask(client, "one")
        await _thread_has(tmp_path / "data", "one", 2)
        client.process.terminate()
        # A second is given to the client to take the rest; then the daemon ends without it.
        await until_dead(client.process.pid)
        client.reading.set()
        assert await client.wait() == 0
        with pytest.raises(EOFError):
            await prompt


async def test_requests_of_a_client_that_does_not_read_wait_and_are_answered_when_it_does(
    scripted: Callable[..., str], serving: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    program = serving("from treadle.server import link", "link.PAUSE_ABOVE_BYTES = 1 << 20")
    async with daemon(program=program, env={"TREADLE_MODEL": scripted({"text": FIRST})}) as client:
        client.reading.clear()
        prompt = _ask(client, "one")
        await _thread_has(tmp_path / "data", "one", 2)
        lists = [client.ask("session/list") for _ in range(100)]
        cancelled = client.ask("session/cancel", pair("one"))
        client.reading.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await prompt)["text"] == FIRST
            assert {len((await answer)["sessions"]) for answer in lists} == {1}
            assert "cancelled" in await cancelled  # the turn was about to end by itself
        assert await client.end() == 0
