"""Two daemons on one data folder: a thread has one writer, and the other is told who it is."""

from __future__ import annotations

import asyncio
import random

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import ModelServer, last_user_text, memory
from support.person import on, pair, stored

# Each race is for a pair of its own; every tenth pair is also used by both, one after the other.
RACES = 100
USED_EVERY = 10


async def _race(clients: list[Daemon], instance: str, first: int) -> tuple[Daemon, Daemon]:
    """Have both open one pair at once; return who owns it, and who does not."""
    order = [clients[first], clients[1 - first]]
    asked = [client.ask("session/resume", pair(instance)) for client in order]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    [owner] = [client for client, won in zip(order, outcomes, strict=True) if isinstance(won, dict)]
    [(loser, lost)] = [
        (client, lost)
        for client, lost in zip(order, outcomes, strict=True)
        if isinstance(lost, BaseException)
    ]
    assert isinstance(lost, RpcError)
    names(lost, owner)
    return owner, loser


def names(locked: RpcError, holder: Daemon) -> None:
    """See that an error says who holds the thread, and how to get to it there."""
    pid = holder.process.pid
    how = locked.data["how"]
    assert locked.data == {"reason": "thread_locked", "pid": pid, "how": how}
    assert how.startswith(f"process {pid} is a daemon or a script with one client")


async def test_of_two_daemons_one_owns_a_thread_and_the_other_has_it_after_a_close() -> None:
    chance = random.Random(7)
    async with (
        ModelServer(memory) as server,
        daemon(env=on(server)) as one,
        daemon(env=on(server)) as other,
    ):
        for number in range(RACES):
            instance = f"race {number}"
            owner, loser = await _race([one, other], instance, chance.randrange(2))
            if number % USED_EVERY:
                await owner.request("session/close", pair(instance))
                await loser.request("session/resume", pair(instance))
                await loser.request("session/close", pair(instance))
                continue
            await owner.request("session/prompt", pair(instance, prompt="My name is Mac."))
            # Who only looks needs no lock.
            read = await loser.request("session/read", pair(instance))
            assert [each["content"] for each in read["messages"]][:1] == ["My name is Mac."]
            listed = (await loser.request("session/list"))["sessions"]
            assert [each["heldBy"] for each in listed if each["instance"] == instance] == [
                owner.process.pid
            ]
            await owner.request("session/close", pair(instance))
            answer = await loser.request("session/prompt", pair(instance, prompt="My name?"))
            assert answer["text"] == "Your name is Mac."
            assert answer["turn"] == 2


async def test_a_lock_file_that_is_deleted_lets_nobody_in_unnoticed() -> None:
    async with (
        ModelServer(memory) as server,
        daemon(env=on(server)) as owner,
        daemon(env=on(server)) as other,
    ):
        await owner.request("session/prompt", pair("l", prompt="My name is Mac."))
        stored("assistant", "l").with_suffix(".lock").unlink()
        await other.request("session/prompt", pair("l", prompt="I am here too."))
        with pytest.raises(RpcError) as locked:
            await owner.request("session/prompt", pair("l", prompt="My name?"))
        await other.request("session/close", pair("l"))
        answer = await owner.request("session/prompt", pair("l", prompt="My name?"))

    # Nobody asked for the thread anew: it was taken from under whoever had it.
    assert locked.value.data == {"reason": "thread_locked", "pid": other.process.pid}
    assert (answer["text"], answer["turn"]) == ("Your name is Mac.", 3)


async def test_a_prompt_to_a_held_thread_is_refused_and_changes_nothing() -> None:
    async with (
        ModelServer(memory) as server,
        daemon(env=on(server)) as owner,
        daemon(env=on(server)) as other,
    ):
        await owner.request("session/prompt", pair("h", prompt="My name is Mac."))
        before = stored("assistant", "h").read_bytes()
        with pytest.raises(RpcError) as locked:
            await other.request("session/prompt", pair("h", prompt="My name is Eve."))

        names(locked.value, owner)
        assert [one["error"]["data"] for one in other.of("session/done")] == [locked.value.data]
        assert stored("assistant", "h").read_bytes() == before
        assert [last_user_text(one) for one in server.requests] == ["My name is Mac."]


async def test_the_thread_of_a_killed_daemon_is_free_at_once() -> None:
    async with ModelServer(memory) as server, daemon(env=on(server)) as heir:
        async with daemon(env=on(server)) as owner:
            await owner.request("session/prompt", pair("k", prompt="My name is Mac."))
            await owner.kill()
        answer = await heir.request("session/prompt", pair("k", prompt="What is my name?"))

    assert answer["text"] == "Your name is Mac."
