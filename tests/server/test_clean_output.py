"""Standard output carries frames and nothing else; `Daemon`'s reader fails at any other byte."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import RpcError, daemon

NOISY = (sys.executable, str(Path(__file__).parent / "drivers" / "noisy.py"))
PAIR = {"agent": "assistant", "instance": "a"}

# Python without a buffer would have written the driver's first words to the pipe before the
# daemon's own first line runs.
BUFFERED = {"PYTHONUNBUFFERED": ""}

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="prints through a POSIX shell")


@needs_posix
async def test_whatever_prints_reaches_standard_error_and_not_the_wire(
    scripted: Callable[..., str], tmp_path: Path
) -> None:
    log = tmp_path / "stderr"
    env = {**BUFFERED, "TREADLE_MODEL": scripted({"text": "Hello."})}
    with log.open("wb") as stderr:
        async with daemon(program=NOISY, env=env, stderr=stderr) as client:
            assert await client.request("agent/list") == {"agents": [], "problems": []}
            result = await client.request("session/prompt", {**PAIR, "prompt": "Hi"})
            assert result["text"] == "Hello."
            assert await client.end() == 0
    said = log.read_text()
    for source in (
        "before the start",
        "from print",
        "from sys.stdout",
        "from descriptor 1",
        "from C",
        "from a child",
        "from a warning",
        "from a thread",
        "from a model",
        "from a model's descriptor 1",
        "without a line end",
        "at exit",
        "from descriptor 1 at exit",
    ):
        assert f"noise {source}" in said
    # A library's log is told by its place: what it says may hold what was said to an agent.
    assert re.search(r"^treadle: ERROR noise \(noisy\.py:\d+\)$", said, re.MULTILINE)
    assert "Current thread" in said  # faulthandler's


@needs_posix
async def test_noise_does_no_harm_when_nobody_reads_standard_error_any_more(
    scripted: Callable[..., str],
) -> None:
    env = {**BUFFERED, "TREADLE_MODEL": scripted({"text": "Hello."})}
    close_stderr = ("sh", "-c", 'exec "$@" 2>&-', "sh")
    async with daemon(program=(*close_stderr, *NOISY), env=env) as client:
        assert await client.request("agent/list") == {"agents": [], "problems": []}
        result = await client.request("session/prompt", {**PAIR, "prompt": "Hi"})
        assert result["text"] == "Hello."
        assert await client.end() == 0


@needs_posix
async def test_standard_error_into_the_same_pipe_stays_off_the_wire() -> None:
    together = ("sh", "-c", 'exec "$@" 2>&1', "sh")
    async with daemon(program=(*together, *NOISY), env=BUFFERED) as client:
        assert await client.request("agent/list") == {"agents": [], "problems": []}
        assert await client.end() == 0


@needs_posix
async def test_a_log_that_nobody_reads_does_not_stop_the_daemon(tmp_path: Path) -> None:
    # A FIFO that is open at its other end and never read is full after 64 KiB.
    fifo = tmp_path / "stderr"
    os.mkfifo(fifo)
    unread = os.open(fifo, os.O_RDWR)
    try:
        async with daemon(stderr=unread) as client:
            for _ in range(5000):
                client.notify("session/prompt", {**PAIR, "prompt": "a log line for each of these"})
            await client.still_answers()
            assert await client.end() == 0
    finally:
        os.close(unread)


async def test_no_traceback_is_sent_when_a_handler_fails(
    serving: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    program = serving(
        "from treadle.server.handlers import HANDLERS",
        "async def fail(params, peer):",
        "    raise ZeroDivisionError('a secret')",
        "HANDLERS['agent/list'] = fail",
    )
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        async with daemon(program=program, stderr=stderr) as client:
            answer = client.ask("agent/list")
            await client.until(answer.done)
            message = "agent/list failed inside the daemon; its log says how"
            assert client.log[-1]["error"] == {"code": -32603, "message": message}
            assert await client.end() == 0
    # Where it failed is told, and not what it said, which may be anything.
    assert "ZeroDivisionError\n" in log.read_text()
    assert "a secret" not in log.read_text()


@pytest.mark.parametrize("leave", ["SystemExit(3)", "KeyboardInterrupt()"])
async def test_code_that_wants_to_leave_ends_its_turn_and_not_the_daemon(
    leave: str, scripted: Callable[..., str], serving: Callable[..., tuple[str, str]]
) -> None:
    program = serving(
        "from treadle.models import scripted",
        "async def leave(self, env):",
        f"    raise {leave}",
        "scripted.Scripted.__call__ = leave",
    )
    env = {"TREADLE_MODEL": scripted({"text": "never said"})}
    async with daemon(program=program, env=env) as client:
        for _ in range(2):
            with pytest.raises(RpcError, match="the turn failed inside the daemon"):
                await client.request("session/prompt", {**PAIR, "prompt": "Hi"})
        assert client.of("session/done")[0]["stopReason"] == "error"
        assert await client.end() == 0
