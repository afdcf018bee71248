"""A message that was cut is read whole from what its words name, in later sessions too."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, write_agent
from support.small_window import counter, summing_up, told, write_counting

PASTED = "What is this?\n" + "".join(f"line {n} of it\n" for n in range(1_500)) + "Thanks."
NAMED = re.compile(r"the whole of it is in (output://\S+\.txt)\]")


class Reading:
    """A model that reads what a prompt names, and else says a word."""

    def __init__(self) -> None:
        self.sums_up = summing_up()

    def __call__(self, request: Request) -> Answer:
        text = last_user_text(request)
        if text.startswith("read ") and request["messages"][-1]["role"] == "user":
            return Answer(calls=[("read", json.loads(text.removeprefix("read ")))])
        return self.sums_up(request)


async def read(client: Daemon, server: ModelServer, path: str, **where: Any) -> str:
    """Have the model read a path; return what it is told."""
    asked = json.dumps({"path": path, **where})
    await client.request("session/prompt", counter(prompt=f"read {asked}"))
    return str(server.requests[-1]["messages"][-1]["content"])


def named(server: ModelServer) -> str:
    """Return what the newest request says of where the whole is."""
    found = NAMED.search(json.dumps(server.requests[-1]["messages"]))
    assert found is not None
    return found[1]


async def test_what_was_pasted_is_read_whole_after_a_close_and_in_a_new_process() -> None:
    write_counting()
    async with ModelServer(Reading()) as server:
        async with daemon(env=on(server)) as client:
            await client.request("session/prompt", counter(prompt=PASTED))
            path = named(server)
            middle = {"offset": 700, "limit": 3}
            shown = await read(client, server, path, **middle)
            assert "line 698 of it" in shown and "line 700 of it" in shown
            await client.request("session/close", counter())
            assert await read(client, server, path, **middle) == shown
        async with daemon(env=on(server)) as client:
            assert await read(client, server, path, **middle) == shown
            # A summary stands for it now, and it is in the thread's file alone.
            await told(client, 12)
            await client.request("session/close", counter())
            assert await read(client, server, path, **middle) == shown
            # A fork says the same words, and has the same text.
            await client.request("session/fork", counter(into="b"))
            await client.request("session/delete", counter())
            asked = json.dumps({"path": path, **middle})
            await client.request("session/prompt", counter("b", prompt=f"read {asked}"))
            assert server.requests[-1]["messages"][-1]["content"] == shown
            # It is gone with its thread.
            assert "no kept output" in await read(client, server, path, **middle)


async def test_what_names_an_output_of_an_earlier_session_never_names_another_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    write_agent(
        "counter",
        "You count.",
        tools="[read, shell]",
        permissions="auto",
        sandbox="local",
        cwd=tmp_path / "work",
    )

    def answer(request: Request) -> Answer:
        text = last_user_text(request)
        if request["messages"][-1]["role"] == "user" and text.startswith("run "):
            return Answer(calls=[("shell", {"command": text.removeprefix("run ")})])
        return Reading()(request)

    async def run(client: Daemon, letter: str) -> str:
        command = (
            f"i=0; while [ $i -lt 9000 ]; do echo {letter}{letter}{letter}$i; i=$((i+1)); done"
        )
        await client.request("session/prompt", counter(prompt=f"run {command}"))
        found = re.search(r"output://[\w-]+\.txt", server.requests[-1]["messages"][-1]["content"])
        assert found is not None
        return found[0]

    async with ModelServer(answer) as server, daemon(env=on(server)) as client:
        first = await run(client, "a")
        assert "aaa0" in await read(client, server, first, limit=3)
        await client.request("session/close", counter())
        second = await run(client, "b")
        assert first != second
        assert "bbb0" in await read(client, server, second, limit=3)
        assert "There is no kept output" in await read(client, server, first)
