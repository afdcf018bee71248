"""How a chat in a terminal ends: by the person, by a signal or with the terminal, and in order."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from pathlib import Path

from support.chat import READY, Chat, messages
from support.model_server import Answer, in_order, last_user_text, memory
from support.process import is_alive, until_dead
from support.tmux import CHAT
from support.waiting import PATIENCE_SECONDS


async def test_ctrl_c_clears_the_input_and_twice_leaves(chat: Chat) -> None:
    async with chat(memory) as (terminal, server):
        terminal.type("half a though")
        await terminal.sees("▸ half a though")
        terminal.keys("C-c")
        await terminal.until(lambda screen: "half a though" not in screen)
        await terminal.sees("Ctrl-C again leaves")
        terminal.type("x")
        await terminal.until(lambda screen: "again leaves" not in screen and "▸ x" in screen)
        terminal.keys("C-c", "C-c")
        assert await terminal.exit_code() == 130
        assert server.requests == []


async def test_a_terminal_that_dies_ends_everything_and_loses_nothing(chat: Chat) -> None:
    answer = Answer("one two three", pause_after=2)
    async with chat(in_order(answer)) as (terminal, _):
        terminal.type("count", "Enter")
        await terminal.sees("one two")
        terminal.type("faster", "Enter")
        await terminal.sees("▸ faster")
        terminal.type("not sent yet, 麦克", "C-j")
        terminal.type("second line")
        await terminal.sees("second line")
        assert is_alive(terminal.pid)
        terminal.end()
        await until_dead(terminal.pid)
    kept = messages("default")
    assert [(each["role"], each["content"]) for each in kept] == [
        ("user", "count"),
        ("assistant", "one two"),
        ("user", "faster"),
    ]
    assert kept[1]["partial"]
    # With something in the input, the status line tells of that and not of /help.
    back = "is back in the input"
    async with chat(lambda request: Answer("Got it."), ready=back) as (terminal, server):
        await terminal.sees("▸ not sent yet, 麦克", "second line", back)
        terminal.keys("Enter")
        await terminal.sees("Got it.", READY)
        assert last_user_text(server.requests[0]) == "not sent yet, 麦克\nsecond line"
    async with chat(memory) as (terminal, _):
        await terminal.sees("5 messages, 2 turns")
        # What is typed once the session is open stands behind what would have come back.
        terminal.type("x")
        await terminal.sees("▸ x")


async def test_a_terminal_that_goes_without_a_signal_ends_the_chat_as_well(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    # As under nohup: the signal that tells of a closed terminal is ignored.
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'trap "" HUP; exec "$@"', "sh", *CHAT),
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    await asyncio.to_thread(read_until, ours, b"/help")
    os.write(ours, b"half a draft")
    # The input is redrawn from where it has changed, so it may never come in one piece.
    await asyncio.to_thread(read_until, ours, b"draft")
    os.close(ours)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await process.wait() == 130
    (draft,) = (tmp_path / "data" / "chat" / "drafts").rglob("*.txt")
    assert draft.read_text() == "half a draft"


async def test_what_was_typed_before_the_session_was_open_is_kept_too(tmp_path: Path) -> None:
    draft = tmp_path / "data/chat/drafts/assistant/default.txt"
    draft.parent.mkdir(parents=True)
    draft.write_text("from last time")
    driver = tmp_path / "driver.py"
    driver.write_text(
        "import asyncio\n"
        "from treadle.cli.chat.conversation import Conversation\n"
        "from treadle.cli.main import main\n"
        "Conversation.open = lambda self: asyncio.sleep(3600)\n"
        "raise SystemExit(main(['chat']))\n"
    )
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, str(driver)),
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    await asyncio.to_thread(read_until, ours, "▸".encode())
    os.write(ours, b"sent early\rhalf a draft")
    await asyncio.to_thread(read_until, ours, b"draft")
    os.close(ours)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await process.wait() == 130
    assert draft.read_text() == "from last time\nsent early\nhalf a draft"


def read_until(descriptor: int, text: bytes) -> None:
    """Read from a terminal until it has shown a text."""
    shown = b""
    while text not in shown:
        shown += os.read(descriptor, 65536)


async def test_sigterm_ends_the_chat_in_order(chat: Chat) -> None:
    async with chat(in_order(Answer("one two three", pause_after=2))) as (terminal, _):
        terminal.type("count", "Enter")
        await terminal.sees("one two")
        os.kill(terminal.pid, signal.SIGTERM)
        assert await terminal.exit_code() == 130
        await terminal.sees("one two")
    assert [each.get("partial") for each in messages("default")] == [None, True]
