"""Asking the shared daemon one thing, by a connection that was made for that."""

from __future__ import annotations

import json
import socket
from typing import Any

# `daemon/status` and `daemon/stop` wait behind nothing; a busy machine needs a while all the same.
ANSWER_SECONDS = 10.0


class NoAnswer(Exception):
    """The daemon did not answer in time, or not in a way that can be read."""


def ask(connected: socket.socket, method: str, params: dict[str, Any]) -> Any:
    """Say hello, send one request and return its result.

    Args:
        connected: a fresh connection; its timeout is changed.
        method: of the protocol.
        params: its params.

    Raises:
        NoAnswer: it was answered with an error, or not at all.
    """
    connected.settimeout(ANSWER_SECONDS)
    hello: dict[str, Any] = {"capabilities": {"experimental": {"treadle": {}}}}
    try:
        with connected.makefile("rb") as replies:
            for number, (name, its) in enumerate((("initialize", hello), (method, params))):
                message = {"jsonrpc": "2.0", "id": number, "method": name, "params": its}
                body = json.dumps(message).encode()
                connected.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            while (reply := _next(replies)).get("id") != 1:
                continue
    except (OSError, ValueError) as error:
        raise NoAnswer(str(error)) from error
    if "result" not in reply:
        raise NoAnswer(str(reply.get("error", {}).get("message", reply)))
    return reply["result"]


def _next(replies: Any) -> dict[str, Any]:
    """Read one frame.

    Raises:
        ValueError: there is none.
    """
    size_bytes = 0
    while line := replies.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size_bytes = int(value)
    message = json.loads(replies.read(size_bytes))
    if not isinstance(message, dict):
        raise ValueError("the daemon sent what is no message")
    return message
