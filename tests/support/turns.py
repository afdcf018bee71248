"""What turns are made of in tests, and readings of what they left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from support.waiting import PATIENCE_SECONDS
from treadle.thread.message import Message, ToolCall
from treadle.thread.records import TurnRecord, decode_record
from treadle.tools.tool import tool
from treadle.turn.env import Env


@tool(capability="read")
async def look() -> str:
    """Look around."""
    return "a desk"


def say(text: str) -> Callable[[Env], Awaitable[None]]:
    """Answer every time with `text`."""

    async def completion(env: Env) -> None:
        await env.append(Message("assistant", text))

    return completion


def call(*calls: ToolCall, then: str = "done") -> Callable[[Env], Awaitable[None]]:
    """Call tools while the person has just spoken, answer with `then` when results are there."""

    async def completion(env: Env) -> None:
        if env.messages[-1].role == "tool":
            await env.append(Message("assistant", then))
        else:
            await env.append(Message("assistant", tool_calls=list(calls)))

    return completion


class Thinking:
    """Never ends unless it is cancelled; `begun` is set once it has been asked."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def __call__(self, env: object = None) -> None:
        self.begun.set()
        await asyncio.Event().wait()


async def cancelled(turn: Coroutine[Any, Any, Env], *, once: asyncio.Event) -> None:
    """Run a turn, cancel it once something has happened, and see it end as cancelled."""
    task = asyncio.create_task(turn)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await once.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def roles_and_texts(messages: list[Message]) -> list[tuple[str, str]]:
    """What a conversation says."""
    return [(message.role, message.text) for message in messages]


def turn_records(path: Path) -> list[TurnRecord]:
    """The records of turns in a thread's file."""
    records = [
        decode_record(line) for line in path.read_bytes().splitlines() if b'{"turn"' in line[:7]
    ]
    return [record.turn for record in records if record.turn is not None]
