"""The process behind `support.forked`: it has loaded all of Treadle, and forks daemons.

A program, never imported. Whatever a daemon imports at its first turn it has imported for one of
its own; it has no other threads when it forks, so that a fork is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path

import treadle.server.connection
import treadle.server.serve  # noqa: F401 - for the daemons
from treadle.agents.options import SessionOptions
from treadle.cli.main import main
from treadle.folders import Folders
from treadle.runtime.outbox import Pair
from treadle.runtime.prompt import Prompt
from treadle.runtime.runtime import Runtime
from treadle.thread.message import Message

# A request is a line of some hundred bytes.
REQUEST_BYTES = 1 << 16
# Threads that flush end when there is nothing to flush.
JOIN_SECONDS = 10.0

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


async def take_a_turn(folder: Path) -> None:
    """Take a turn, so that all is loaded that one needs."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    os.environ.update(TREADLE_MODEL="m", OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1")
    runtime = Runtime(Folders(folder, folder / "config", folder / "cache", folder / "logs"))
    prompt = Prompt([Message("user", "Hi")], SessionOptions(cwd=folder))
    outcome = await runtime.session(Pair("assistant", "warm")).prompt(prompt)
    assert outcome.done.text == "Hi", outcome
    await runtime.close()
    server.close()


def warm_up() -> None:
    """Load everything, and leave nothing behind but that."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(take_a_turn(Path(folder)))
    os.environ.clear()
    os.environ.update(before)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(JOIN_SECONDS)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()


def wait_for_work(line: socket.socket) -> list[str]:
    """Fork where that is asked; return in each fork, with its words, and at the end with none."""
    children: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, REQUEST_BYTES, 2)
        if not data:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            return []
        request = json.loads(data)
        if "pid" in request:
            children.discard(request["pid"])
            _, status = os.waitpid(request["pid"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                become(line, descriptors, request["env"])
                return ["serve", *request["arguments"]]
            children.add(answer)
        for descriptor in descriptors:
            os.close(descriptor)
        line.sendall(b"%d\n" % answer)


def become(line: socket.socket, descriptors: list[int], env: dict[str, str]) -> None:
    """Take the pipes and variables that a daemon would have been started with."""
    line.close()
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.update(env)


warm_up()
if words := wait_for_work(socket.socket(fileno=int(sys.argv[1]))):
    raise SystemExit(main(words))
