"""The end of a connection as LSP defines it, and the death of the client's process."""

from __future__ import annotations

import asyncio
import sys

import pytest

from support.daemon import RpcError, daemon
from support.process import until_dead
from support.waiting import PATIENCE_SECONDS

PAIR = {"agent": "assistant", "instance": "a"}


async def test_shutdown_then_exit_ends_with_code_0() -> None:
    async with daemon() as client:
        assert await client.request("shutdown") is None
        client.notify("exit")
        assert await client.wait() == 0
        assert client.strays == []


async def test_exit_without_shutdown_ends_with_code_1() -> None:
    async with daemon() as client:
        client.notify("exit")
        assert await client.wait() == 1


async def test_exit_before_initialize_ends_with_code_1() -> None:
    async with daemon(initialize=False) as client:
        client.notify("exit")
        assert await client.wait() == 1
        assert client.log == []


async def test_after_shutdown_nothing_but_exit_is_taken() -> None:
    async with daemon() as client:
        await client.request("shutdown")
        for method in ("shutdown", "initialize", "session/list", "no/such"):
            with pytest.raises(RpcError) as refused:
                await client.request(method, {})
            assert refused.value.code == -32600
        client.notify("session/close", {"agent": "assistant", "instance": "a"})
        client.notify("exit")
        assert await client.wait() == 0


async def test_exit_sent_together_with_shutdown_still_lets_its_reply_out() -> None:
    async with daemon() as client:
        reply = client.ask("shutdown")
        client.notify("exit")
        assert await reply is None
        assert await client.wait() == 0


async def test_a_shutdown_under_an_id_in_flight_shuts_nothing_down(waiting_model: str) -> None:
    async with daemon(env={"TREADLE_MODEL": waiting_model}) as client:
        prompt = client.ask("session/prompt", {**PAIR, "prompt": "Hi"})
        await client.until(lambda: bool(client.of("session/state")))
        shutdown = {"jsonrpc": "2.0", "id": prompt.request_id, "method": "shutdown"}  # type: ignore[attr-defined]  # set by ask
        client.send(shutdown)
        with pytest.raises(RpcError) as refused:
            await prompt
        assert refused.value.code == -32600
        listed = await client.request("session/list")
        assert [session["state"] for session in listed["sessions"]] == ["running"]
        client.notify("exit")
        assert await client.wait() == 1


async def test_shutdown_lets_a_running_turn_end_as_interrupted(waiting_model: str) -> None:
    async with daemon(env={"TREADLE_MODEL": waiting_model}) as client:
        prompt = client.ask("session/prompt", {**PAIR, "prompt": "Hi"})
        await client.until(lambda: bool(client.of("session/state")))
        await client.request("shutdown")
        assert prompt.result()["stopReason"] == "interrupted"
        client.notify("exit")
        assert await client.wait() == 0


async def test_a_session_method_without_initialized_is_answered() -> None:
    async with daemon() as client:
        await client.still_answers()


async def test_a_process_id_that_is_dead_already_ends_the_daemon_in_order() -> None:
    gone = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await gone.wait()
    async with daemon(initialize=False) as client:
        result = await client.initialize(processId=gone.pid)
        assert result["serverInfo"]["name"] == "treadle"
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await client.wait() == 0


async def test_the_daemon_ends_when_the_clients_process_dies_and_interrupts_its_turn(
    waiting_model: str,
) -> None:
    editor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    async with daemon(env={"TREADLE_MODEL": waiting_model}, initialize=False) as client:
        await client.initialize(processId=editor.pid)
        prompt = client.ask("session/prompt", {**PAIR, "prompt": "Hi"})
        await client.until(lambda: bool(client.of("session/state")))
        editor.kill()
        await editor.wait()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await client.wait() == 0
        assert (await prompt)["stopReason"] == "interrupted"
    await until_dead(client.process.pid)


@pytest.mark.parametrize("process_id", [0, -1, None])
async def test_a_process_id_that_no_process_has_is_not_watched(process_id: int | None) -> None:
    async with daemon(initialize=False) as client:
        await client.initialize(processId=process_id)
        await client.still_answers()
        assert await client.end() == 0


@pytest.mark.parametrize("process_id", [2**31, 2**64, 10**30])
async def test_a_process_id_beyond_every_system_counts_as_dead(process_id: int) -> None:
    async with daemon(initialize=False) as client:
        await client.initialize(processId=process_id)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await client.wait() == 0
