"""What stands between a server's messages and the SDK: how much the server may ask at once.

Owns that a server which asks without end costs nothing but its own time. Refuses to know what is
asked, and how messages come and go.
"""

from __future__ import annotations

from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from treadle.mcp.lost import Lost

# More questions than a person or a model is ever asked at once.
MOST_QUESTIONS = 16

# A caller that gives up tells the server, and is gone within a second whatever becomes of that.
CANCEL_SECONDS = 0.5

_TOO_MANY = ErrorData(code=INTERNAL_ERROR, message="too many requests at once")


class Gate:
    """The two streams that the SDK is given.

    Args:
        incoming: the transport's messages: anything that is iterated.
        outgoing: where messages for the server go: anything with `send`.
        lost: told when no more messages come.
    """

    def __init__(self, incoming: Any, outgoing: Any, lost: Lost) -> None:
        self._questions: set[RequestId] = set()
        self._is_shut = False
        self.outgoing = _Outgoing(self, outgoing)
        self.incoming = _Incoming(self, incoming, lost)

    def shut(self) -> None:
        """Let nothing more out: whoever still wants to say something is not waited for."""
        self._is_shut = True

    def require_open(self) -> None:
        """Go on.

        Raises:
            anyio.ClosedResourceError: it is shut.
        """
        if self._is_shut:
            raise anyio.ClosedResourceError

    def too_much(self, message: Any) -> RequestId | None:
        """Note a message of the server's; return its number if it asks more than it may."""
        if isinstance(message, JSONRPCNotification):
            if message.method == "notifications/cancelled" and message.params:
                number = message.params.get("requestId")
                if isinstance(number, int | str):
                    self._questions.discard(number)
            return None
        if not isinstance(message, JSONRPCRequest):
            return None
        if message.id in self._questions or len(self._questions) >= MOST_QUESTIONS:
            return message.id
        self._questions.add(message.id)
        return None

    def answers(self, message: Any) -> None:
        """Note a message to the server."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._questions.discard(message.id)


class _Stream:
    """What both streams have in common: they are closed by whoever made what lies under them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        return None

    async def aclose(self) -> None:
        return None


class _Incoming(_Stream):
    def __init__(self, gate: Gate, incoming: Any, lost: Lost) -> None:
        self._gate = gate
        self._incoming = incoming
        self._lost = lost

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._next()
            number = None if isinstance(item, Exception) else self._gate.too_much(item.message)
            if number is None:
                return item
            # Nothing more is read until this is said: it is the server's turn to listen.
            await self._refuse(number)

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def _next(self) -> Any:
        try:
            return await self._incoming.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._lost.because("the server ended the connection")
            raise StopAsyncIteration from None

    async def _refuse(self, number: RequestId) -> None:
        refusal = JSONRPCError(jsonrpc="2.0", id=number, error=_TOO_MANY)
        try:
            await self._gate.outgoing.refuse(SessionMessage(refusal))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return


class _Outgoing(_Stream):
    def __init__(self, gate: Gate, outgoing: Any) -> None:
        self._gate = gate
        self._outgoing = outgoing

    async def send(self, item: SessionMessage) -> None:
        self._gate.require_open()
        if _is_cancel(item.message):
            with anyio.move_on_after(CANCEL_SECONDS):
                await self._outgoing.send(item)
            return
        try:
            await self._outgoing.send(item)
        finally:
            self._gate.answers(item.message)

    async def refuse(self, item: SessionMessage) -> None:
        """Send a refusal; what it refuses may have the number of a question that stands."""
        self._gate.require_open()
        await self._outgoing.send(item)


def _is_cancel(message: Any) -> bool:
    return isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled"
