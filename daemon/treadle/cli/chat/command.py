"""`treadle chat`: which face a conversation gets; loads the other half only when it is needed."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from treadle.cli.options import DEFAULT_AGENT, DEFAULT_INSTANCE, NoDaemonOption

# What terminals call themselves that have no cursor to move, or do not know whether they have.
_DUMB = frozenset({"", "dumb", "unknown"})


def chat(
    agent: Annotated[str, typer.Argument(help="The agent's name.")] = DEFAULT_AGENT,
    instance: Annotated[str, typer.Argument(help="Which of its sessions.")] = DEFAULT_INSTANCE,
    no_daemon: NoDaemonOption = False,
) -> None:
    """Talk with an agent; it goes on where the session was. /help lists what can be done.

    On the shared daemon a turn goes on when the chat is left, and the next chat shows it.

    With piped input each line is a prompt, and a line of three double quotes opens and closes one
    of several lines.
    """
    if _has_cursor():
        from treadle.cli.chat.at_terminal import chat_at_terminal

        raise typer.Exit(asyncio.run(chat_at_terminal(agent, instance, own=no_daemon)))
    from treadle.cli.chat.plain import chat_in_lines

    raise typer.Exit(asyncio.run(chat_in_lines(agent, instance, own=no_daemon)))


def _has_cursor() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return sys.platform == "win32" or os.environ.get("TERM", "") not in _DUMB
