"""`treadle chat` in a real terminal, with a model server's answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from support.model_server import Answer, ModelServer, Request
from support.person import on, stored
from support.tmux import CHAT, Tmux, tmux


def resting(hint: str = "/help", model: str = "test-model") -> str:
    """Return the end of the status line while nothing goes on; that would stand in between.

    The hint alone says less: it is there while a session is being opened and a command runs.
    """
    return f"· {model} · {hint}"


# The end of the status line when anything can be said.
READY = resting()

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


async def say(terminal: Tmux, text: str, *signs: str, ready: str = READY) -> str:
    """Say something to a chat in which nothing goes on, and wait until all of it has ended.

    Args:
        terminal: where the chat is.
        text: what is typed and sent.
        signs: what then stands below it, such as the answer.
        ready: the end of the status line.

    Returns:
        What stands below it.
    """
    terminal.type(text, "Enter")
    return await ended(terminal, text, *signs, ready=ready)


async def ended(terminal: Tmux, text: str, *signs: str, ready: str = READY) -> str:
    """Wait, within a bound, until what was said has ended; as `say`, which types it first.

    Without a sign it may not have begun: a status line is older than what was just sent.
    """
    assert signs, "nothing tells that this has begun"
    # The line above is blank in each whole picture; a half drawn one has an old line at its foot.
    status = re.compile(rf"^\n[^\n]*{re.escape(ready)}$", re.MULTILINE)
    below = ""

    def has_ended(screen: str) -> bool:
        nonlocal below
        # While it is still being typed, nothing is below.
        _, said, below = screen.rpartition(f"▸ {text}\n")
        return bool(said and status.search(below)) and all(sign in below for sign in signs)

    await terminal.until(has_ended, history=True)
    return below


def messages(instance: str) -> list[dict[str, Any]]:
    """Return a thread's messages, from its file."""
    lines = stored("assistant", instance).read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if "role" in line]
