"""Sessions by the dozen in one daemon, each with a server that misbehaves and one that does not.

Owns how such a session gets to the moment at which it is ended, and how it is seen that nothing
is left of it. Refuses to know by which end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon
from support.mcp.home import Home, open_home
from support.mcp.misdeeds import MISDEEDS, Misdeed
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, pair, write_agent, write_config
from support.process import children_of, is_alive
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.folders import LOG_VARIABLE

# The ladder of a server: end of input, TERM, each a second, then KILL.
LADDER_SECONDS = 2.0
# How long beyond its ladder a process may be seen: the machine is busy with dozens like it.
BEYOND_SECONDS = 5.0
# What a shutdown may take by its own word, and what a busy machine adds.
SHUTDOWN_SECONDS = 5.0 + 3.0
# A cancel is answered when the turn has ended; a server's process is not waited for.
CANCEL_SECONDS = 5.0

# Sessions that are brought to their moment at the same time: two cores have enough to do with them.
SIDE_BY_SIDE = 6
# More turns than there are sessions: each of them may have one that hangs.
CONFIG = "[sessions]\nturns_in_flight = 200\n"


@dataclass(eq=False)
class Visit:
    """One combination: a session, its servers, and what came of its calls.

    Args:
        name: the combination's; the agent is called so too.
        misdeed: what the server `bad` does wrong.
        settings: what the declaration of both servers says beside the command.
        arguments: further ones of `bad`'s kit.
        generation: how often the definition of `bad` was replaced.
        results: what the last call of each tool came to, as the model was told it.
        asked: what the model was asked, by the verbs of the prompts.
        turn: the prompt that is under way.
    """

    name: str
    misdeed: Misdeed
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    generation: int = 0
    results: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    turn: asyncio.Future[Any] | None = None

    @property
    def echoes(self) -> list[str]:
        """The tools that are called to see that the session works."""
        return ["good__echo"] if self.misdeed.echo == "nothing" else ["good__echo", "bad__echo"]

    @property
    def bad(self) -> str:
        """What the kit calls the server that misbehaves."""
        return f"{self.name}.bad-{self.generation}"

    @property
    def good(self) -> str:
        """What the kit calls the one beside it."""
        return f"{self.name}.good"

    @property
    def names(self) -> tuple[str, str]:
        return self.bad, self.good


class House:
    """A daemon, its model and its visits."""

    def __init__(self, client: Daemon, home: Home, visits: Iterable[Visit]) -> None:
        self.client = client
        self.home = home
        self.visits = {visit.name: visit for visit in visits}

    def move_in(self, visit: Visit) -> None:
        """Write the agent's file."""
        bad = self.home.command(visit.bad, *visit.misdeed.arguments, *visit.arguments)
        good = self.home.command(visit.good)
        servers = {
            "bad": {"command": bad[0], "args": bad[1:], **visit.settings},
            "good": {"command": good[0], "args": good[1:], **visit.settings},
        }
        servers["good"].pop("start_seconds", None)
        write_agent(visit.name, permissions="auto", mcp_servers=json.dumps(servers))

    async def open(self, visit: Visit, instance: str = "a") -> None:
        await self.client.request("session/resume", pair(instance, visit.name))

    async def prompt(self, visit: Visit, verb: str, instance: str = "a") -> Any:
        """Have a turn in which the model calls what the verb says; return its outcome."""
        said = pair(instance, visit.name, prompt=f"{visit.name} {verb}")
        return await self.client.request("session/prompt", said)

    async def call(self, visit: Visit, instance: str = "a") -> None:
        """Prompt, within a bound, until both servers have answered as they should.

        A prompt waits for servers that are being started, but not for long.
        """
        await self._prompt_until(visit, "echo", instance, self._has_answers)

    def _has_answers(self, visit: Visit) -> bool:
        said = visit.results.get("bad__echo", "")
        as_expected = {
            "answers": "hello" in said or "xxxx" in said,
            "fails": bool(said) and "hello" not in said,
        }.get(visit.misdeed.echo, True)
        return as_expected and _has_good_answer(visit)

    async def be_busy(self, visit: Visit, instance: str = "a") -> None:
        """Begin a turn that does not end: in a call, or in the model's answer where none can be."""
        said = pair(instance, visit.name, prompt=f"{visit.name} wait")
        visit.turn = self.client.ask("session/prompt", said)
        if visit.misdeed.hears:
            await self.home.until(lambda: self.home.heard(visit.bad, "tools/call wait"))
        else:
            await self.home.until(lambda: "wait" in visit.asked)

    async def close(self, visit: Visit, instance: str = "a") -> list[dict[str, Any]]:
        """Close the session; return the servers that were released."""
        async with asyncio.timeout(LADDER_SECONDS + BEYOND_SECONDS):
            reply = await self.client.request("session/close", pair(instance, visit.name))
        assert reply["closed"] is True
        return sorted(reply["released"]["servers"], key=lambda server: server["server"])

    async def close_again(self, visit: Visit) -> list[dict[str, Any]]:
        """Close a session that is closed; return what was released."""
        reply = await self.client.request("session/close", pair("a", visit.name))
        assert reply["closed"] is False
        released: list[dict[str, Any]] = reply["released"]["servers"]
        return released

    def ended(
        self, server: str, name: str, exit_code: int, by: str = "end_of_input"
    ) -> dict[str, Any]:
        """Return what a close has to say of a server, by the last process of that name."""
        pid = self.home.servers(name)[-1].pid
        return {"server": server, "pid": pid, "exit": exit_code, "by": by}

    async def call_good(self, visit: Visit) -> None:
        """Prompt, within a bound, until the good server has answered."""
        await self._prompt_until(visit, "good", "a", _has_good_answer)

    async def _prompt_until(
        self, visit: Visit, verb: str, instance: str, is_done: Callable[[Visit], bool]
    ) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    visit.results.clear()
                    outcome = await self.prompt(visit, verb, instance)
                    assert outcome["stopReason"] == "end_turn", outcome
                    if is_done(visit):
                        return
        except TimeoutError:
            raise AssertionError(f"the calls came to {visit.results}") from None

    async def until_state(self, visit: Visit, server: str, state: str) -> dict[str, Any]:
        """Wait, within a bound, until a server does this; return what `mcp/list` says of it."""

        def has_come() -> bool:
            told = self.client.of("mcp/status", "a")
            mine = [one for one in told if (one["agent"], one["server"]) == (visit.name, server)]
            return bool(mine) and mine[-1]["state"] == state

        await self.client.until(has_come)
        return (await self.servers(visit))[server]

    async def gone(self, *names: str, after_seconds: float = 0) -> None:
        """See, within the bound, every process of these servers dead.

        Args:
            names: the servers' names.
            after_seconds: how long it takes until they are to end.
        """
        try:
            async with asyncio.timeout(after_seconds + LADDER_SECONDS + BEYOND_SECONDS):
                await self.home.until(lambda: not self.home.alive(names))
        except TimeoutError:
            raise AssertionError(f"still alive: {self.home.alive(names)}") from None

    async def servers(self, visit: Visit, instance: str = "a") -> dict[str, dict[str, Any]]:
        """Return what `mcp/list` says, by name."""
        listed = await self.client.request("mcp/list", pair(instance, visit.name))
        return {server["server"]: server for server in listed["servers"]}

    async def each(self, do: Callable[[Visit], Awaitable[None]], at_once: int = 1000) -> None:
        """Do something with each visit, side by side; name every one that it fails with."""
        gate = asyncio.Semaphore(at_once)

        async def one(visit: Visit) -> str:
            async with gate:
                try:
                    await do(visit)
                except Exception as error:
                    return f"{visit.name}: {type(error).__name__}: {error}"
            return ""

        failures = [said for said in await asyncio.gather(*map(one, self.visits.values())) if said]
        assert not failures, "\n".join(failures)

    def answer(self, request: Request) -> Answer:
        """Be the model: call what the prompt says, once it is offered."""
        name, verb = last_user_text(request).split()
        visit = self.visits[name]
        last = request["messages"][-1]
        if last["role"] == "tool":
            visit.results |= _results(request)
        visit.asked.append(verb)
        self.home.changed()
        offered = {tool["function"]["name"] for tool in request.get("tools", ())}
        wanted = {"wait": ["bad__wait"], "good": ["good__echo"]}.get(verb, visit.echoes)
        called = [(tool, {"text": "hello"}) for tool in wanted if tool in offered]
        if last["role"] == "tool" or not called:
            return Answer("Fine.", delay_seconds=PATIENCE_SECONDS * 10 if verb == "wait" else 0)
        return Answer(calls=called)


def _has_good_answer(visit: Visit) -> bool:
    return "hello" in visit.results.get("good__echo", "")


def _results(request: Request) -> dict[str, str]:
    """Return what the calls of the running turn came to, by the tools' names."""
    names: dict[str, str] = {}
    results: dict[str, str] = {}
    for message in request["messages"]:
        if message["role"] == "user":
            results.clear()
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool":
            results[names[message["tool_call_id"]]] = str(message["content"])
    return results


@contextlib.asynccontextmanager
async def house(visits: Iterable[Visit]) -> AsyncIterator[House]:
    """Run a daemon for these visits; nothing of it is left at the end, whatever happened."""
    answers: list[Callable[[Request], Answer]] = []
    async with (
        open_home() as home,
        ModelServer(lambda request: answers[0](request)) as model,
        daemon(env=on(model)) as client,
    ):
        made = House(client, home, visits)
        answers.append(made.answer)
        write_config(CONFIG)
        for visit in made.visits.values():
            made.move_in(visit)
        yield made
    assert errors_logged() == []


def errors_logged() -> list[str]:
    """Return what daemons have logged of faults of their own."""
    logs = Path(os.environ[LOG_VARIABLE]).iterdir()
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if " error " in line[:60]]


@contextlib.asynccontextmanager
async def visited(
    ending: str,
    arguments: tuple[str, ...] = (),
    misdeeds: Iterable[Misdeed] = MISDEEDS,
    **settings: Any,
) -> AsyncIterator[House]:
    """Have a visit of each misdeed; what was ended before the end of the block stays so.

    Args:
        ending: what the names of the visits begin with.
        arguments: further ones of each kit that misbehaves.
        misdeeds: which.
        settings: what the declarations of all servers say.
    """
    visits = [Visit(f"{ending}-{each.name}", each, settings, arguments) for each in misdeeds]
    async with house(visits) as made:
        yield made
        assert made.home.alive(name for visit in visits for name in visit.names) == []
        started = len(made.home.lines)
        await made.client.request("shutdown")
        made.client.notify("exit")
        assert await ends_within(made.client, SHUTDOWN_SECONDS) == 0
        assert len(made.home.lines) == started, "a server was started after its session's end"


async def ends_within(client: Daemon, seconds: float) -> int:
    """Wait until the daemon has ended, with what it had started; return its exit code."""
    try:
        async with asyncio.timeout(seconds):
            return await client.process.wait()
    except TimeoutError:
        raise AssertionError(f"the daemon still runs after {seconds:g} s") from None


def helpers_of(client: Daemon, home: Home) -> list[int]:
    """Return the children of a daemon that are none of the kit's."""
    kit = {line.pid for line in home.lines}
    return [pid for pid in children_of(client.process.pid) if pid not in kit]


async def until_all_dead(pids: Iterable[int]) -> None:
    """Wait, within a bound, until none of these runs."""
    for pid in pids:
        await until_seen(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]  # bound at once
