"""The process behind `support.forked`: it has loaded all of Treadle, and forks daemons.

A program, never imported. It has no threads, so that a fork of it is whole.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys

import openai.resources.chat.completions  # noqa: F401 - nothing else takes as long to load

import treadle.models.openai
import treadle.runtime.opened
import treadle.server.connection
import treadle.server.serve  # noqa: F401 - for the daemons
from treadle.cli.main import main

# A request is a line of some hundred bytes.
REQUEST_BYTES = 1 << 16


def wait_for_work(line: socket.socket) -> list[str]:
    """Fork where that is asked; return in each fork, with its words, and at the end with none."""
    gc.freeze()
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


if words := wait_for_work(socket.socket(fileno=int(sys.argv[1]))):
    raise SystemExit(main(words))
