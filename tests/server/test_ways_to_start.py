"""`treadle serve` however it is started: as a module, as a command, on pipes and on files."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.daemon import daemon, frame

SCRIPT = str(Path(sys.executable).with_name("treadle"))
WAYS = {"module": (sys.executable, "-m", "treadle", "serve"), "command": (SCRIPT, "serve")}

PATIENCE_SECONDS = 30.0


def _session() -> bytes:
    """Return everything a client says, at once."""
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"method": "initialized"},
        {"id": 2, "method": "session/list"},
        {"id": 3, "method": "shutdown"},
        {"method": "exit"},
    ]
    return b"".join(frame({"jsonrpc": "2.0", **message}) for message in messages)


def _frames(data: bytes) -> list[dict[str, Any]]:
    """Read a whole output as frames and nothing else."""
    frames = []
    while data:
        header, _, rest = data.partition(b"\r\n\r\n")
        name, length = header.split(b": ")
        assert name == b"Content-Length"
        frames.append(json.loads(rest[: int(length)]))
        data = rest[int(length) :]
    return frames


def _check(output: bytes) -> None:
    first, *others = _frames(output)
    assert first["id"] == 1
    assert {reply["id"]: reply["result"] for reply in others} == {2: {"sessions": []}, 3: None}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_the_daemon_starts_as_a_module_and_as_a_command(way: Sequence[str]) -> None:
    async with daemon(program=way) as client:
        await client.still_answers()
        assert await client.end() == 0


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_daemon_works_on_regular_files(way: Sequence[str], tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(_session())
    with source.open("rb") as stdin, target.open("wb") as stdout:
        done = subprocess.run(way, stdin=stdin, stdout=stdout, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0
    _check(target.read_bytes())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
def test_who_types_the_command_is_told_what_it_waits_for() -> None:
    import pty

    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        WAYS["module"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(theirs)
    try:
        # What Ctrl-D is on a terminal.
        os.write(ours, b"\x04")
        out, err = program.communicate(timeout=PATIENCE_SECONDS)
    finally:
        program.kill()
        program.wait()
        os.close(ours)
    assert (out, err.count(b"\n")) == (b"", 1)
    assert err.startswith(b"treadle serve: waiting for an editor or a script to send JSON-RPC")


def test_what_a_file_asks_before_it_ends_is_answered(tmp_path: Path) -> None:
    messages = _session()[: -len(frame({"jsonrpc": "2.0", "method": "exit"}))]
    done = subprocess.run(
        WAYS["module"], input=messages, stdout=subprocess.PIPE, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0
    _check(done.stdout)


def test_no_input_at_all_is_an_end() -> None:
    done = subprocess.run(
        WAYS["module"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors through a POSIX shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_no_reason_to_fail(closed: str) -> None:
    line = f'exec "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *WAYS["module"]],
        input=_session(),
        stdout=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0
    if ">&-" not in closed.replace("2>&-", ""):
        if "<&-" in closed:
            assert done.stdout == b""
        else:
            _check(done.stdout)


async def test_folders_may_be_named_on_the_command_line(tmp_path: Path) -> None:
    data = tmp_path / "elsewhere"
    async with daemon("--stdio", "--data-dir", str(data), initialize=False) as client:
        result = await client.initialize()
        assert result["capabilities"]["experimental"]["treadle"]["dataDir"] == str(data)
        resumed = await client.request("session/resume", {"agent": "assistant", "instance": "a"})
        assert Path(resumed["thread"]["path"]).is_relative_to(data)


async def test_an_unknown_flag_is_told_on_standard_error() -> None:
    process = await asyncio.create_subprocess_exec(
        *WAYS["module"],
        "--no-such-flag",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, complained = await process.communicate()
    assert (process.returncode, said) == (2, b"")
    assert b"--no-such-flag" in complained
