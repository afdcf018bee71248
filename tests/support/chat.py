"""`treadle chat` in a real terminal, with a model server's answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from support.model_server import Answer, ModelServer, Request
from support.person import on, stored
from support.tmux import CHAT, Tmux, tmux

# What the status line says when nothing goes on.
READY = "/help"

Chat: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Tmux, ModelServer]]]
"""`chat_in` a test's own folder."""


@asynccontextmanager
async def chat_in(
    folder: Path,
    answer: Callable[[Request], Answer],
    *words: str,
    ready: str = READY,
    env: dict[str, str] | None = None,
    **size: int,
) -> AsyncIterator[tuple[Tmux, ModelServer]]:
    """Open a chat; the terminal is gone at the end, whatever happened.

    Args:
        folder: where it runs.
        answer: what the model says to each request.
        words: further arguments of the command.
        ready: what the screen shows once it can be typed at.
        env: variables beside those of this process.
        size: the terminal's `width` and `height`, where they matter.
    """
    async with ModelServer(answer) as server:
        variables = {**on(server), **(env or {})}
        async with tmux(*CHAT, *words, folder=folder, env=variables, **size) as terminal:
            await terminal.sees(ready)
            yield terminal, server


def messages(instance: str) -> list[dict[str, Any]]:
    """Return a thread's messages, from its file."""
    lines = stored("assistant", instance).read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if "role" in line]
