"""A server of the handshake that speaks lines, in plain Python that starts in 20 ms.

    python -I -S lines.py PROGRAM

PROGRAM is Python that may replace any of the functions below; `tools/call` comes to `call`, and
every other method to the function of its last word.
"""

from __future__ import annotations

import json
import os
import sys
import time


def write(*messages: dict) -> None:
    for message in messages:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        raw(line.encode())


def raw(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def answer(request: dict, result: object) -> None:
    write({"id": request["id"], "result": result})


def fail(request: dict, code: int = -32601, text: str = "no such method") -> None:
    write({"id": request["id"], "error": {"code": code, "message": text}})


def text(words: str) -> dict:
    return {"content": [{"type": "text", "text": words}]}


def read() -> dict:
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)
    return json.loads(line)


def initialize(request: dict) -> None:
    version = request["params"]["protocolVersion"]
    capabilities = {"tools": {"listChanged": True}, "resources": {}}
    info = {"name": "lines", "version": "1"}
    answer(
        request,
        {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
    )


def list(request: dict) -> None:  # noqa: A001 - the last word of a method
    if request["method"] != "tools/list":
        return fail(request)
    return answer(request, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})


def call(request: dict) -> None:
    answer(request, text(request["params"]["arguments"].get("text", "")))


def initialized(notification: dict) -> None:
    pass


def serve() -> None:
    while True:
        message = read()
        word = message.get("method", "").rpartition("/")[2]
        handler = globals().get(word)
        if handler is not None:
            handler(message)
        elif "id" in message and word:
            fail(message)


def spend(seconds: float) -> None:
    time.sleep(seconds)


exec(sys.argv[1])
serve()
