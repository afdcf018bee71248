"""Dispatch: every request gets exactly one reply, whatever becomes of it.

The one module that builds error replies. Knows methods and handlers, not what they do.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from treadle.errors import (
    InternalError,
    InvalidRequest,
    MethodNotFound,
    RequestCancelled,
    ShuttingDown,
    TreadleError,
)
from treadle.protocol.base import WireStruct
from treadle.protocol.methods import METHODS
from treadle.server.wire.envelope import (
    Notification,
    Request,
    RequestId,
    decode_params,
    encode_error,
    encode_result,
)

logger = logging.getLogger(__name__)

ContextT = TypeVar("ContextT")

Handler: TypeAlias = Callable[[Any, ContextT], Awaitable[WireStruct | None]]
"""Called with the method's decoded params and the connection.

Contract: raises `TreadleError` for what the client can act on; may be cancelled at any await
and then ends soon; starts in the order in which requests arrive.
"""


class Reply:
    """The one reply of one request: a second one is impossible."""

    def __init__(self, request_id: RequestId, send: Callable[[bytes], None]) -> None:
        self._id = request_id
        self._send = send
        self._sent = False

    def result(self, result: WireStruct | None) -> None:
        """Answer with a result."""
        self._once(encode_result(self._id, result))

    def error(self, error: TreadleError) -> None:
        """Answer with an error."""
        self._once(encode_error(self._id, error))

    def _once(self, body: bytes) -> None:
        if not self._sent:
            self._sent = True
            self._send(body)


class Dispatch(Generic[ContextT]):
    """Runs requests, each in a task of its own, and answers them.

    Args:
        handlers: by method name.
        context: handed to every handler.
        send: sends one body; must not raise.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler[ContextT]],
        context: ContextT,
        send: Callable[[bytes], None],
    ) -> None:
        self._handlers = handlers
        self._context = context
        self._send = send
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        self._in_flight: dict[RequestId, asyncio.Task[None]] = {}
        self._unnumbered: set[asyncio.Task[None]] = set()
        self._closing = False

    def request(self, request: Request) -> None:
        """Start a request; its reply follows."""
        reply = Reply(request.id, self._send)
        if request.id in self._in_flight:
            reply.error(InvalidRequest(f"a request with id {request.id!r} is still in flight"))
            return
        task = asyncio.create_task(self._answer(request.method, request.params, reply))
        self._in_flight[request.id] = task
        task.add_done_callback(lambda _: self._end(request.id, reply))

    def notification(self, notification: Notification) -> None:
        """Run a request that came without an id, if its method allows that; nothing is answered."""
        row = METHODS.get(notification.method)
        if row is None or not row.without_id:
            if not notification.method.startswith("$/"):
                logger.warning("%r came without an id and was not run", notification.method)
            return
        silent = Reply(0, lambda _: None)
        task = asyncio.create_task(self._answer(notification.method, notification.params, silent))
        self._unnumbered.add(task)
        task.add_done_callback(self._unnumbered.discard)

    def cancel(self, request_id: RequestId) -> None:
        """Cancel a request that is in flight; any other id is none of our business."""
        task = self._in_flight.get(request_id)
        if task is not None and not task.cancelling():
            task.cancel()

    async def close(self, timeout_seconds: float) -> None:
        """Let what is in flight end, cancel what does not, and return when all have answered."""
        self._closing = True
        tasks = {*self._in_flight.values(), *self._unnumbered} - {asyncio.current_task()}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=timeout_seconds)

    def _end(self, request_id: RequestId, reply: Reply) -> None:
        """Forget a request whose task has ended, and answer it if that task never could.

        This is the line that guarantees the reply: a task that was cancelled before its first
        step has run no code of ours.
        """
        self._in_flight.pop(request_id, None)
        reply.error(
            ShuttingDown("the daemon is shutting down")
            if self._closing
            else RequestCancelled("cancelled by the client")
        )

    async def _answer(self, method: str, params: bytes, reply: Reply) -> None:
        """Run one request to its reply; a cancelled one is answered when its task has ended."""
        try:
            reply.result(await self._run(method, params))
        except asyncio.CancelledError:
            raise
        except TreadleError as error:
            reply.error(error)
        except BaseException:
            logger.exception("the handler of %r failed in a way nobody foresaw", method)
            reply.error(InternalError(f"{method} failed inside the daemon; its log says how"))

    async def _run(self, method: str, params: bytes) -> WireStruct | None:
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotFound(f"no method {method!r}{_nearest(method, self._handlers)}")
        if method not in self._decoders:
            self._decoders[method] = msgspec.json.Decoder(METHODS[method].params)
        return await handler(decode_params(self._decoders[method], params), self._context)


def _nearest(method: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(method, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
