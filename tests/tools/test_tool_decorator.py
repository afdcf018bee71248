"""Making a tool from a plain function: what the model is told, how it is called."""

from __future__ import annotations

import threading
from typing import Annotated, Any, Literal

import msgspec
import pytest

from treadle.errors import ConfigurationError
from treadle.models.completion import ToolSpec
from treadle.permissions.policy import Policy
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.tool import CALL_DEADLINE_SECONDS, Tool, ToolContext, tool

CONTEXT = ToolContext(VirtualSandbox(), policy=Policy("auto"))


class Point(msgspec.Struct):
    x: int


@tool(capability="write")
async def move(
    to: Point,
    how: Annotated[Literal["fast", "slow"], msgspec.Meta(description="the speed")],
    steps: Annotated[int, msgspec.Meta(ge=1)] = 1,
    *,
    tags: list[str] = [],  # noqa: B006 - what a person may well write
    context: ToolContext,
) -> str:
    """Move the piece.

    It says where it went.

    Args:
        to: where to,
            on the board.
        how: not told, the annotation goes before.
        steps (int): how many
        context: never told.

    Returns:
        Not for the model.
    """
    assert context is CONTEXT
    return f"{to.x} {how} {steps} {tags}"


class Tree(msgspec.Struct):
    below: list[Tree]


async def _run(tool: Tool, **arguments: Any) -> ToolOutcome:
    call = ToolCall("1", tool.spec.name, arguments)
    return await run_call(call, {tool.spec.name: tool}, CONTEXT)


def test_the_model_is_told_name_description_and_schema() -> None:
    assert move.spec == ToolSpec(
        "move",
        "Move the piece.\n\nIt says where it went.",
        {
            "type": "object",
            "properties": {
                "to": {
                    "title": "Point",
                    "type": "object",
                    "properties": {"x": {"type": "integer"}},
                    "required": ["x"],
                    "description": "where to, on the board.",
                },
                "how": {"enum": ["fast", "slow"], "description": "the speed"},
                "steps": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 1,
                    "description": "how many",
                },
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            },
            "required": ["to", "how"],
            "additionalProperties": False,
        },
    )
    assert (move.capability, move.deadline_seconds) == ("write", CALL_DEADLINE_SECONDS)


async def test_a_tool_is_called_with_typed_arguments_and_its_context() -> None:
    outcome = await _run(move, to={"x": 3}, how="slow", tags=["a"])
    assert outcome == ToolOutcome("3 slow 1 ['a']", ok=True, truncated=False)


async def test_a_plain_function_runs_in_a_thread_and_may_return_any_json() -> None:
    @tool(capability="read")
    def where() -> dict[str, bool]:
        return {"on the loop": threading.current_thread() is threading.main_thread()}

    assert where.spec == ToolSpec(
        "where", "", {"type": "object", "properties": {}, "additionalProperties": False}
    )
    assert await _run(where) == ToolOutcome('{"on the loop":false}', ok=True, truncated=False)


async def test_a_tool_with_only_a_schema_gets_its_arguments_as_they_came() -> None:
    async def handle(arguments: dict[str, Any], context: ToolContext) -> str:
        return f"{arguments} {context is CONTEXT}"

    remote = Tool(ToolSpec("wiki__find", "", {"type": "object"}), "network", handle)
    outcome = await _run(remote, any=[1])
    assert outcome == ToolOutcome("{'any': [1]} True", ok=True, truncated=False)


def test_a_signature_that_a_model_cannot_be_told_is_refused_when_it_is_made() -> None:
    def untyped(a) -> str:  # type: ignore[no-untyped-def] # the point of this test
        return str(a)

    def variadic(*a: int) -> str:
        return str(a)

    def positional(a: int, /) -> str:
        return str(a)

    def unjsonable(a: threading.Lock) -> str:
        return str(a)

    def ünï() -> str:
        return ""

    def unknown(a: Nowhere) -> str:  # type: ignore[name-defined] # noqa: F821 - the point of this test
        return str(a)

    def recursive(a: Tree) -> str:
        return str(a)

    for function in (untyped, variadic, positional, unjsonable, ünï, unknown, recursive):
        with pytest.raises(ConfigurationError):
            tool(capability="read")(function)


@pytest.mark.parametrize("name", ["", "has space", "dotted.name", "x" * 65, "ünï", "line\n"])
def test_a_name_that_a_provider_would_refuse_is_refused_first(name: str) -> None:
    with pytest.raises(ConfigurationError):
        Tool(ToolSpec(name, "", {}), "read", move.handler)
