"""The tools of a turn: advertised, run side by side, each call answered exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.turns import call, cancelled, roles_and_texts, turn_records
from support.waiting import PATIENCE_SECONDS
from treadle.errors import ConfigurationError, StorageDegraded
from treadle.models.completion import ToolSpec
from treadle.models.scripted import Reply, Scripted, ScriptedCall
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.journal import Journal
from treadle.thread.message import Message, ToolCall
from treadle.thread.repair import INTERRUPTED_TEXT, NOT_RUN_TEXT
from treadle.thread.replay import load
from treadle.tools.tool import Tool, ToolContext, ToolError, tool
from treadle.turn import tools as tools_layer
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import ToolResultLanded
from treadle.turn.loop import ToolResultLoop
from treadle.turn.session_log import SessionLog
from treadle.turn.tools import PARALLEL_CALLS, Tools


@tool(capability="read")
async def look(at: str) -> str:
    """Look at something.

    Args:
        at: what to look at.
    """
    return f"a {at}"


@tool(capability="read")
async def fail() -> str:
    """Fail."""
    raise ToolError("it is jammed; use the other one")


def named(name: str, run: Callable[[], Awaitable[str]]) -> Tool:
    """A tool without arguments."""

    async def handle(arguments: object, context: ToolContext) -> str:
        return await run()

    return Tool(ToolSpec(name, "", {"type": "object"}), "read", handle)


def logged(path: Path, *tools: Tool) -> Agent:
    """An agent with tools, whose turns are kept."""
    return Agent().use(SessionLog, path=path).use(ToolResultLoop).use(Tools, tools=tools)


def results(path: Path) -> list[tuple[str, str]]:
    """Calls and their results, as the thread's file has them."""
    return [(m.tool_call_id, m.text) for m in load(path).messages if m.role == "tool"]


async def test_tools_are_advertised_in_their_order_and_answered_in_the_thread() -> None:
    model = Scripted([Reply(calls=[ScriptedCall("look", {"at": "desk"}, id="1")]), "ok"])

    env = await Agent().use(ToolResultLoop).use(Tools, tools=[look, fail]).run(model).start("?")

    assert env.tools == [look.spec, fail.spec]
    assert [request.tools for request in model.requests] == [("look", "fail")] * 2
    assert env.messages[2] == Message("tool", "a desk", tool_call_id="1")
    assert env.metadata["timings"].keys() == {"turn_seconds", "model_seconds", "tools_seconds"}


async def test_tools_may_act_in_the_sandbox_they_are_given() -> None:
    @tool(capability="read")
    async def show(path: str, context: ToolContext) -> str:
        """Show a file."""
        return (await context.sandbox.read_bytes(path)).decode()

    calls = call(ToolCall("1", "show", {"path": "a.txt"}))
    sandbox = VirtualSandbox({"a.txt": b"hello"})

    env = await Agent().use(Tools, tools=[show], sandbox=sandbox).run(calls).start("?")
    assert env.messages[-1].text == "hello"

    env = await Agent().use(Tools, tools=[show]).run(calls).start("?")
    assert env.messages[-1].is_error


async def test_two_tools_of_one_name_are_an_error_before_anything_is_said() -> None:
    with pytest.raises(ConfigurationError, match="same name"):
        await Agent().use(Tools, tools=[look, look]).run(call()).start("hi")


async def test_calls_of_one_batch_run_side_by_side() -> None:
    meeting = asyncio.Barrier(3)

    async def meet() -> str:
        # Nobody gets past before all three are here.
        await meeting.wait()
        return "met"

    names = ("a", "b", "c")
    agent = Agent().use(Tools, tools=[named(name, meet) for name in names])
    calls = [ToolCall(name, name) for name in names]

    async with asyncio.timeout(PATIENCE_SECONDS):
        env = await agent.run(call(*calls)).start("go")

    assert [message.text for message in env.messages[2:]] == ["met"] * 3


async def test_no_more_calls_run_at_once_than_the_bound_allows() -> None:
    running, most, go_on, full = 0, 0, asyncio.Event(), asyncio.Event()

    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == PARALLEL_CALLS:
            full.set()
        await go_on.wait()
        running -= 1
        return "ok"

    calls = [ToolCall(str(number), "work") for number in range(PARALLEL_CALLS + 3)]
    started: list[str] = []
    agent = Agent().use(Tools, tools=[named("work", work)]).run(call(*calls))
    agent.on("tool_call", lambda _, started_call: started.append(started_call.call.id))

    async with asyncio.timeout(PATIENCE_SECONDS):
        turn = asyncio.create_task(agent.start("go"))
        await full.wait()
        for _ in range(100):  # whoever wants to slip in gets the chance
            await asyncio.sleep(0)
        assert len(started) == PARALLEL_CALLS
        go_on.set()
        env = await turn

    assert most == PARALLEL_CALLS
    assert [message.tool_call_id for message in env.messages[2:]] == [c.id for c in calls]


async def test_results_land_in_the_order_of_the_calls_however_they_finish() -> None:
    second_is_done = asyncio.Event()

    async def slow() -> str:
        await second_is_done.wait()
        return "slow"

    async def quick() -> str:
        second_is_done.set()
        return "quick"

    agent = Agent().use(Tools, tools=[named("slow", slow), named("quick", quick)])
    landed: list[str] = []
    agent.on("tool_result", lambda _, result: landed.append(result.message.text))

    async with asyncio.timeout(PATIENCE_SECONDS):
        env = await agent.run(call(ToolCall("1", "slow"), ToolCall("2", "quick"))).start("go")

    assert roles_and_texts(env.messages[2:]) == [("tool", "slow"), ("tool", "quick")]
    assert landed == ["slow", "quick"]


async def test_a_failing_call_is_a_result_and_the_others_and_the_turn_go_on() -> None:
    calls = [
        ToolCall("1", "fail"),
        ToolCall("2", "look", {"at": "desk"}),
        ToolCall("3", "lok"),
        ToolCall("4", "look", {"at": 1}),
    ]
    agent = Agent().use(ToolResultLoop).use(Tools, tools=[look, fail])

    env = await agent.run(call(*calls, then="I see.")).start("?")

    failed, seen, unknown, misfit = env.messages[2:6]
    assert failed == Message("tool", "it is jammed; use the other one", [], "1", is_error=True)
    assert seen == Message("tool", "a desk", tool_call_id="2")
    assert unknown.is_error and "look" in unknown.text
    assert misfit.is_error and "at" in misfit.text
    assert env.messages[-1].text == "I see."


async def test_a_tool_that_cancels_itself_ends_its_call_and_not_the_turn() -> None:
    async def give_up() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    agent = Agent().use(ToolResultLoop).use(Tools, tools=[named("give_up", give_up)])

    env = await agent.run(call(ToolCall("1", "give_up"), then="Well.")).start("?")

    assert roles_and_texts(env.messages[2:]) == [
        ("tool", INTERRUPTED_TEXT),
        ("assistant", "Well."),
    ]


class Batch:
    """Tools for a batch that is stopped: `first` hangs, `second` finishes, `third` hangs."""

    def __init__(self) -> None:
        self.hanging = 0
        self.ready = asyncio.Event()
        self.tools = [
            named("first", self.hang),
            named("second", self.finish),
            named("third", self.hang),
        ]
        self.calls = [ToolCall(tool.spec.name, tool.spec.name) for tool in self.tools]

    async def hang(self) -> str:
        self.hanging += 1
        if self.hanging == 2:
            self.ready.set()
        await asyncio.Event().wait()
        return "never"

    async def finish(self) -> str:
        return "finished"


async def test_a_turn_cancelled_in_a_batch_keeps_what_is_done_and_answers_every_call(
    tmp_path: Path,
) -> None:
    path, batch, landed = tmp_path / "chat.jsonl", Batch(), list[ToolResultLanded]()
    agent = logged(path, *batch.tools).run(call(*batch.calls))
    agent.on("tool_result", lambda _, result: landed.append(result))

    await cancelled(agent.start("go"), once=batch.ready)

    assert results(path) == [
        ("first", INTERRUPTED_TEXT),
        ("second", "finished"),
        ("third", INTERRUPTED_TEXT),
    ]
    assert [result.message for result in landed] == load(path).messages[-3:]
    assert [result.message.is_error for result in landed] == [True, False, True]
    assert turn_records(path)[-1].stop_reason == "cancelled"


async def test_calls_that_waited_for_their_turn_are_answered_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools_layer, "PARALLEL_CALLS", 2)
    path, batch, started = tmp_path / "chat.jsonl", Batch(), list[str]()
    batch.calls = [ToolCall(str(number), "first") for number in range(4)]
    agent = logged(path, *batch.tools).run(call(*batch.calls))
    agent.on("tool_call", lambda _, call: started.append(call.call.id))

    await cancelled(agent.start("go"), once=batch.ready)

    assert results(path) == [
        ("0", INTERRUPTED_TEXT),
        ("1", INTERRUPTED_TEXT),
        ("2", NOT_RUN_TEXT),
        ("3", NOT_RUN_TEXT),
    ]
    assert started == ["0", "1"]


class Stubborn:
    """A tool that ignores the first `ignores` cancels and is let go at the end of a test."""

    def __init__(self, ignores: int) -> None:
        self.told = 0
        self.begun = asyncio.Event()
        self.told_once = asyncio.Event()
        self.let_go = asyncio.Event()
        self.ended = asyncio.Event()
        self.tool = named("stubborn", self.run)
        self._ignores = ignores

    async def run(self) -> str:
        self.begun.set()
        try:
            while not self.let_go.is_set():
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    self.told += 1
                    self.told_once.set()
                    if self.told > self._ignores:
                        raise
            return "at last"
        finally:
            self.ended.set()


async def test_a_tool_that_ignores_a_cancel_is_left_behind_after_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tools_layer, "STOP_SECONDS", 0.05)
    path, stubborn = tmp_path / "chat.jsonl", Stubborn(ignores=1000)
    agent = logged(path, stubborn.tool).run(call(ToolCall("1", "stubborn")))

    turn = asyncio.create_task(agent.start("go"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await stubborn.begun.wait()
        turn.cancel()
        with caplog.at_level(logging.WARNING), pytest.raises(asyncio.CancelledError):
            await turn
        assert not stubborn.ended.is_set()
        assert results(path) == [("1", INTERRUPTED_TEXT)]
        assert "left behind, for they do not stop: stubborn" in caplog.text

        # What it says when it ends after all reaches nobody.
        stubborn.let_go.set()
        await stubborn.ended.wait()
        await asyncio.sleep(0)
    assert results(path) == [("1", INTERRUPTED_TEXT)]


async def test_a_second_cancel_reaches_a_tool_that_ignored_the_first(tmp_path: Path) -> None:
    path, stubborn = tmp_path / "chat.jsonl", Stubborn(ignores=1)
    agent = logged(path, stubborn.tool).run(call(ToolCall("1", "stubborn")))

    turn = asyncio.create_task(agent.start("go"))
    async with asyncio.timeout(tools_layer.STOP_SECONDS):
        await stubborn.begun.wait()
        turn.cancel()
        await stubborn.told_once.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert stubborn.ended.is_set()
    assert stubborn.told == 2
    assert results(path) == [("1", INTERRUPTED_TEXT)]
    assert turn_records(path)[-1].stop_reason == "cancelled"


async def test_a_tool_may_clean_up_when_it_is_cancelled_and_is_waited_for() -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    async def careful() -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            cleaned.set()
        return "never"

    agent = (
        Agent().use(Tools, tools=[named("careful", careful)]).run(call(ToolCall("1", "careful")))
    )
    await cancelled(agent.start("go"), once=begun)

    assert cleaned.is_set()


async def test_a_result_that_cannot_be_kept_stops_the_others_and_ends_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, stubborn = tmp_path / "chat.jsonl", Stubborn(ignores=0)

    async def fill_disk() -> str:
        await stubborn.begun.wait()

        def full(self: Journal, line: bytes) -> None:
            raise StorageDegraded("the disk is full", path=str(path))

        monkeypatch.setattr(Journal, "append", full)
        return "full"

    agent = logged(path, named("fill", fill_disk), stubborn.tool)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(StorageDegraded):
            await agent.run(call(ToolCall("1", "fill"), ToolCall("2", "stubborn"))).start("go")

    assert stubborn.ended.is_set()


async def test_two_calls_of_one_id_are_both_answered() -> None:
    same = [ToolCall("1", "look", {"at": "desk"}), ToolCall("1", "look", {"at": "chair"})]

    env: Env = await Agent().use(Tools, tools=[look]).run(call(*same)).start("?")

    assert [(m.tool_call_id, m.text) for m in env.messages[2:]] == [
        ("1", "a desk"),
        ("1", "a chair"),
    ]
