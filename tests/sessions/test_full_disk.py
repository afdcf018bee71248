"""A disk without room: the turn ends with an error, nothing said before is lost, it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from support.daemon import Daemon, RpcError
from support.model_server import Answer
from support.person import by_text, conversation, pair, stored

resource = pytest.importorskip("resource", reason="limits of processes are a thing of Unix")
if not hasattr(resource, "prlimit"):
    pytest.skip("only Linux limits another process", allow_module_level=True)


def _room(client: Daemon, size_bytes: int) -> None:
    """Let no file of the daemon grow beyond a size."""
    _, hard = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


async def _refusal(client: Daemon, method: str, params: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(RpcError) as refused:
        await client.request(method, params)
    assert refused.value.code == -32803
    return refused.value.data


async def test_a_turn_on_a_full_disk_is_refused_and_seen_and_the_next_one_works() -> None:
    async with conversation(by_text({})) as (client, server):
        await client.request("session/prompt", pair("f", prompt="Hello"))
        path = stored("assistant", "f")
        whole = path.read_bytes()
        _room(client, len(whole))
        error = await _refusal(client, "session/prompt", pair("f", prompt="Lost?"))
        degraded = client.of("session/state")[-1]
        assert path.read_bytes() == whole
        _room(client, resource.RLIM_INFINITY)
        answer = await client.request("session/prompt", pair("f", prompt="And now?"))

    assert error == {"reason": "storage_degraded", "path": str(path)}
    assert (degraded["state"], degraded["storage"]) == ("idle", "degraded")
    assert client.of("session/state")[-1]["storage"] == "ok"
    assert client.of("session/done")[1]["error"]["data"] == error
    assert answer["text"] == "Fine."
    assert [one["messages"][-1]["content"] for one in server.requests] == ["Hello", "And now?"]


async def test_an_answer_that_cannot_be_kept_is_not_acknowledged() -> None:
    async with conversation(by_text({"Long": Answer("word " * 400)})) as (client, _):
        await client.request("session/prompt", pair("g", prompt="Hello"))
        path = stored("assistant", "g")
        _room(client, path.stat().st_size + 1000)
        error = await _refusal(client, "session/prompt", pair("g", prompt="Long"))
        _room(client, resource.RLIM_INFINITY)
        await client.request("session/prompt", pair("g", prompt="And now?"))
        await client.request("session/close", pair("g"))
        read = (await client.request("session/read", pair("g")))["messages"]
        report = (await client.request("session/resume", pair("g")))["report"]

    assert error["reason"] == "storage_degraded"
    assert [one["content"] for one in read] == ["Hello", "Fine.", "Long", "And now?", "Fine."]
    assert report == {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}


async def test_a_thread_that_cannot_be_made_is_told_and_can_be_made_later() -> None:
    async with conversation(by_text({})) as (client, _):
        _room(client, 0)
        error = await _refusal(client, "session/resume", pair("h"))
        _room(client, resource.RLIM_INFINITY)
        await client.request("session/resume", pair("h"))
        answer = await client.request("session/prompt", pair("h", prompt="Hello"))

    assert error["reason"] == "storage_degraded"
    assert answer["turn"] == 1
