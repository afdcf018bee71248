"""The pipeline of a call: every failure is an outcome that the model can act on."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from treadle.models.completion import ToolSpec
from treadle.sandbox.virtual import VirtualSandbox
from treadle.stack.stack import App, Stack
from treadle.thread.attachments import attachment
from treadle.thread.message import ToolCall
from treadle.tools.layers.execute import execute
from treadle.tools.layers.failures import TellFailures
from treadle.tools.layers.validate import Validate
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.tool import Answer, CallEnv, Tool, ToolContext, ToolError, tool

deterministic = settings(derandomize=True, database=None, deadline=None)

CONTEXT = ToolContext(sandbox=VirtualSandbox())


@tool(capability="read")
async def count(up_to: Annotated[int, Meta(ge=1, le=9)], word: str = "") -> str:
    """Count."""
    return " ".join([word, *map(str, range(1, up_to + 1))]).strip()


async def _outcome(call: ToolCall, *tools: Tool) -> ToolOutcome:
    return await run_call(call, {each.spec.name: each for each in tools}, CONTEXT)


def _tool(handler: Any, deadline_seconds: float = 60.0) -> Tool:
    return Tool(ToolSpec("odd", "", {}), "read", handler, deadline_seconds=deadline_seconds)


async def _failure_of(error: BaseException) -> ToolOutcome:
    async def handle(arguments: object, context: ToolContext) -> str:
        raise error

    return await _outcome(ToolCall("1", "odd"), _tool(handle))


async def test_a_call_is_answered() -> None:
    outcome = await _outcome(ToolCall("1", "count", {"up_to": 3, "word": "go"}), count)
    assert outcome == ToolOutcome("go 1 2 3", ok=True, truncated=False)


async def test_an_unknown_tool_names_the_nearest_and_all_there_are() -> None:
    assert await _outcome(ToolCall("1", "Cuont"), count) == ToolOutcome(
        "There is no tool 'Cuont'. Did you mean count? The tools are: count.",
        ok=False,
        truncated=False,
    )
    assert (await _outcome(ToolCall("1", "count"))).content == (
        "There is no tool 'count'. There are no tools."
    )
    assert len((await _outcome(ToolCall("1", "x" * 10**6), count)).content) < 400


async def test_arguments_that_were_no_object_are_shown_with_the_schema() -> None:
    outcome = await _outcome(ToolCall("1", "count", raw_arguments='{"up_to": 3'), count)
    assert not outcome.ok
    assert outcome.content.startswith("The arguments of count were no JSON object: '{\"up_to\": 3'")
    assert '"maximum":9' in outcome.content


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({}, "missing required field up_to"),
        ({"up_to": "many"}, "up_to: Expected int, got str"),
        ({"up_to": 10}, "up_to: Expected int <= 9"),
        ({"up_to": True}, "up_to: Expected int, got bool"),
        ({"up_to": None}, "up_to: Expected int, got null"),
        ({"up_to": 1, "word": ["x"]}, "word: Expected str, got array"),
        ({"up_to": 1, "fast": 1}, "contains unknown field fast"),
    ],
)
async def test_arguments_that_do_not_fit_say_which_and_what_was_expected(
    arguments: dict[str, Any], what: str
) -> None:
    outcome = await _outcome(ToolCall("1", "count", arguments), count)
    assert not outcome.ok
    assert f"The arguments of count do not fit: {what}. " in outcome.content.replace("Object ", "")
    assert '"additionalProperties":false' in outcome.content


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ToolError("say what to do"), "say what to do"),
        (FileNotFoundError(2, "No such file", "/outside/x"), "odd failed: No such file"),
        (OSError("the disk is on fire"), "odd failed: the disk is on fire"),
        (TimeoutError(), "odd failed: TimeoutError"),
        (ZeroDivisionError("division by zero"), "odd failed: ZeroDivisionError: division by zero"),
        (StopIteration(), "odd failed: RuntimeError: coroutine raised StopIteration"),
        (SystemExit(3), "odd failed: SystemExit: 3"),
        (asyncio.CancelledError(), "odd was cancelled from within; it may have had effects"),
    ],
)
async def test_whatever_a_tool_raises_is_an_outcome(error: BaseException, content: str) -> None:
    assert await _failure_of(error) == ToolOutcome(content, ok=False, truncated=False)


async def test_an_unexpected_failure_is_logged_and_an_expected_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "treadle"):
        await _failure_of(ToolError("x"))
        await _failure_of(OSError("x"))
        assert not caplog.records
        await _failure_of(KeyError("x"))
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_plain_function_that_runs_out_does_not_hang() -> None:
    @tool(capability="read")
    def first() -> str:
        return next(iter([]))

    outcome = await asyncio.wait_for(_outcome(ToolCall("1", "first"), first), 10)
    assert outcome.content == "first failed: RuntimeError: the tool raised StopIteration"


async def test_a_handler_that_returns_no_text_has_failed() -> None:
    async def handle(arguments: object, context: ToolContext) -> Any:
        return 3

    outcome = await _outcome(ToolCall("1", "odd"), _tool(handle))
    assert outcome.content == "odd failed: TypeError: a tool's handler returns text, not int"


async def test_a_call_beyond_its_deadline_is_stopped_and_says_so() -> None:
    stopped = asyncio.Event()

    async def handle(arguments: object, context: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    outcome = await _outcome(ToolCall("1", "odd"), _tool(handle, deadline_seconds=0.01))
    assert outcome.content.startswith("odd was stopped after 0.01 s without an answer;")
    assert (outcome.ok, stopped.is_set()) == (False, True)


async def test_a_cancel_of_the_caller_reaches_the_tool_and_goes_through() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def handle(arguments: object, context: ToolContext) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    running = asyncio.create_task(_outcome(ToolCall("1", "odd"), _tool(handle)))
    await asyncio.wait_for(started.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stopped.is_set()


@deterministic
@given(st.text(min_size=0, max_size=20), st.integers(0, 6000))
def test_a_result_is_bounded_in_bytes_and_stays_valid_text(piece: str, times: int) -> None:
    async def handle(arguments: object, context: ToolContext) -> str:
        return piece * times

    outcome = asyncio.run(_outcome(ToolCall("1", "odd"), _tool(handle)))
    whole = piece * times
    assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES
    assert outcome.truncated == (len(whole.encode()) > RESULT_LIMIT_BYTES)
    if outcome.truncated:
        shown, _, note = outcome.content.rpartition("\n")
        assert whole.startswith(shown)
        assert str(len(whole.encode())) in note
    else:
        assert outcome.content == (whole or "(no output)")


async def test_text_that_is_no_unicode_becomes_so() -> None:
    async def handle(arguments: object, context: ToolContext) -> str:
        return "a\ud800b"

    outcome = await _outcome(ToolCall("1", "odd"), _tool(handle))
    assert outcome == ToolOutcome("a\ufffdb", ok=True, truncated=False)


async def test_a_long_failure_is_bounded_too() -> None:
    outcome = await _failure_of(ToolError("x" * 100_000))
    assert (outcome.ok, outcome.truncated) == (False, True)
    assert len(outcome.content.encode()) == RESULT_LIMIT_BYTES


async def test_what_a_call_brings_along_is_part_of_its_outcome_unless_it_fails() -> None:
    image = attachment("image", b"\x89PNG\r\n\x1a\n", "image/png")

    async def shoot(arguments: object, context: ToolContext) -> Answer:
        return Answer("", (image,))

    class Fails:
        def __init__(self, app: App[CallEnv]) -> None:
            self._app = app

        async def __call__(self, env: CallEnv) -> None:
            await self._app(env)
            raise ToolError("it was no photograph")

    odd = _tool(shoot)
    stack = Stack[CallEnv]().use(TellFailures).use(Fails).use(Validate).run(execute).build()
    assert await _outcome(ToolCall("1", "odd"), odd) == ToolOutcome(
        "(no output)", ok=True, truncated=False, blocks=(image,)
    )
    assert await run_call(ToolCall("1", "odd"), {"odd": odd}, CONTEXT, stack) == ToolOutcome(
        "it was no photograph", ok=False, truncated=False
    )


async def test_a_python_function_may_bring_something_along_too() -> None:
    image = attachment("image", b"\x89PNG\r\n\x1a\n", "image/png")

    @tool(capability="read")
    def shoot() -> Answer:
        """Take a photograph."""
        return Answer("a shot", (image,))

    assert await _outcome(ToolCall("1", "shoot"), shoot) == ToolOutcome(
        "a shot", ok=True, truncated=False, blocks=(image,)
    )
