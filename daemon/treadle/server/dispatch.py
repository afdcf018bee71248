"""Dispatch: every request gets exactly one reply, whatever becomes of it.

Owns what is in flight, and every error reply. Refuses to know what handlers do, and what may be
said when.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from treadle.errors import (
    InternalError,
    InvalidRequest,
    MethodNotFound,
    Overloaded,
    RequestCancelled,
    ShuttingDown,
    TreadleError,
)
from treadle.protocol.base import WireStruct
from treadle.protocol.methods import METHODS
from treadle.server.log.words import outcome
from treadle.server.wire.envelope import (
    Notification,
    Request,
    RequestId,
    decode_params,
    encode_error,
    encode_result,
)

logger = logging.getLogger(__name__)

# A longer name is not a typing error, and comparing one of megabytes takes seconds of our loop.
NAME_CHARACTERS = 200

# What one client may have in flight: more prompts than anybody queues, and a loop that sends
# requests without reading replies meets an error instead of all of the memory.
MAX_IN_FLIGHT = 4096

ContextT = TypeVar("ContextT")

OnAnswered: TypeAlias = Callable[[str, str, float], None]
"""Told a request's method, outcome (`ok`, or an error's reason or code) and seconds.

Contract: must not raise or block.
"""

Handler: TypeAlias = Callable[[Any, ContextT], "Awaitable[WireStruct | FollowedBy | None]"]
"""Called with the method's decoded params and the connection.

Contract: raises `TreadleError` for what the client can act on; may be cancelled at any await
and then ends soon; starts in the order in which requests arrive.
"""


@dataclass(frozen=True, slots=True)
class FollowedBy:
    """A result, and what is to be sent right behind its reply, before anything else.

    Args:
        result: the reply's.
        then: sends it. Contract: as that of a handler's `send`: must not raise, block or suspend.
    """

    result: WireStruct | None
    then: Callable[[], None]


class Reply:
    """The one reply of one request: a second one is impossible.

    Attributes:
        outcome: how the request ended, for the log: `ok`, else the error's reason or code.
    """

    def __init__(self, request_id: RequestId, send: Callable[[bytes], None]) -> None:
        self._id = request_id
        self._send = send
        self._is_sent = False
        self.outcome = ""

    def result(self, result: WireStruct | None) -> None:
        """Answer with a result."""
        if not self._is_sent:
            self.outcome = "ok"
            self._once(encode_result(self._id, result))

    def error(self, error: TreadleError) -> None:
        """Answer with an error."""
        if not self._is_sent:
            self.outcome = outcome(error)
            self._once(encode_error(self._id, error))

    def _once(self, body: bytes) -> None:
        self._is_sent = True
        self._send(body)


def refuse(
    request_id: RequestId | None, error: TreadleError, send: Callable[[bytes], None]
) -> None:
    """Answer what is not run at all; its id is None where none could be read."""
    logger.info("refused: %s", outcome(error))
    send(encode_error(request_id, error))


def unknown(name: str, known: Iterable[str]) -> str:
    """Return how to call an unknown name, and the nearest one that is known where one is near."""
    short = name[:NAME_CHARACTERS]
    near = difflib.get_close_matches(short, known, n=1)
    shown = repr(short) + ("…" if short != name else "")
    return f"{shown}; did you mean {near[0]!r}?" if near else shown


class Dispatch(Generic[ContextT]):
    """Runs requests, each in a task of its own, and answers them.

    Args:
        handlers: by method name.
        context: handed to every handler.
        send: sends one body; must not raise.
        on_answered: told of every request that was run.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler[ContextT]],
        context: ContextT,
        send: Callable[[bytes], None],
        on_answered: OnAnswered = lambda *_: None,
    ) -> None:
        self._handlers = handlers
        self._context = context
        self._send = send
        self._on_answered = on_answered
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        self._in_flight: dict[RequestId, asyncio.Task[None]] = {}
        self._replies: dict[asyncio.Task[None], Reply] = {}
        self._closing = False

    def request(self, request: Request) -> bool:
        """Start a request; its reply follows.

        Returns:
            Whether it was started; else it has been refused already.
        """
        refusal = self._refusal(request)
        if refusal is not None:
            refuse(request.id, refusal, self._send)
            return False
        reply = Reply(request.id, lambda body: self._reply(request.id, body))
        self._in_flight[request.id] = self._start(request.method, request.params, reply)
        return True

    def notification(self, notification: Notification) -> None:
        """Run a request that came without an id, if its method allows that; nothing is answered."""
        if METHODS[notification.method].without_id:
            self._start(notification.method, notification.params, Reply(0, lambda _: None))
        else:
            logger.warning("%r came without an id and was not run", notification.method)

    def cancel(self, request_id: RequestId) -> None:
        """Cancel a request that is in flight; any other id is none of our business."""
        task = self._in_flight.get(request_id)
        if task is not None and not task.cancelling():
            task.cancel()

    async def close(self, timeout_seconds: float) -> None:
        """Let what is in flight end, cancel what does not, and return when all have answered.

        Args:
            timeout_seconds: waited for each of the two; what resists both is answered for.
        """
        self._closing = True
        late = await _ended(set(self._replies) - {asyncio.current_task()}, timeout_seconds)
        for task in late:
            task.cancel()
        for task in await _ended(late, timeout_seconds):
            self._replies[task].error(_SHUTTING_DOWN)

    def _refusal(self, request: Request) -> TreadleError | None:
        if request.id in self._in_flight:
            return InvalidRequest(f"a request with id {request.id!r} is still in flight")
        if len(self._in_flight) < MAX_IN_FLIGHT or not _can_wait(request.method):
            return None
        return Overloaded(f"{MAX_IN_FLIGHT} requests are in flight; wait for some of them")

    def _start(self, method: str, params: bytes, reply: Reply) -> asyncio.Task[None]:
        task = asyncio.create_task(self._answer(method, params, reply))
        self._replies[task] = reply
        task.add_done_callback(self._end)
        began = time.monotonic()
        task.add_done_callback(lambda _: self._tell(method, reply, time.monotonic() - began))
        return task

    def _tell(self, method: str, reply: Reply, seconds: float) -> None:
        """Tell how a request ended: not its params, nor the name of a method that is not ours."""
        name = method if method in METHODS else "an unknown method"
        logger.info("%s: %s after %.3f s", name, reply.outcome, seconds)
        self._on_answered(name, reply.outcome, seconds)

    def _reply(self, request_id: RequestId, body: bytes) -> None:
        # Before it is sent: a quick client may use the id again as soon as it has the reply.
        self._in_flight.pop(request_id, None)
        self._send(body)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Forget a request whose task has ended, and answer it if that task never could.

        This is the line that guarantees the reply: a task that was cancelled before its first
        step has run no code of ours.
        """
        self._replies.pop(task).error(_SHUTTING_DOWN if self._closing else _CANCELLED)

    async def _answer(self, method: str, params: bytes, reply: Reply) -> None:
        """Run one request to its reply; a cancelled one is answered when its task has ended."""
        try:
            done = await self._run(method, params)
            if isinstance(done, FollowedBy):
                reply.result(done.result)
                done.then()
            else:
                reply.result(done)
        except TreadleError as error:
            reply.error(error)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            logger.exception("the handler of %r failed in a way nobody foresaw", method)
            reply.error(InternalError(f"{method} failed inside the daemon; its log says how"))

    async def _run(self, method: str, params: bytes) -> WireStruct | FollowedBy | None:
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotFound(f"no method {unknown(method, self._handlers)}")
        if method not in self._decoders:
            self._decoders[method] = msgspec.json.Decoder(METHODS[method].params)
        return await handler(decode_params(self._decoders[method], params), self._context)


_CANCELLED = RequestCancelled("cancelled by the client")
_SHUTTING_DOWN = ShuttingDown("the daemon is shutting down")


def _can_wait(method: str) -> bool:
    """Whether a method is refused under load; what ends work never is."""
    row = METHODS.get(method)
    return method != "shutdown" and not (row and row.without_id)


def _is_being_cancelled() -> bool:
    """Tell a cancellation from a CancelledError that a handler let out on its own account."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _ended(tasks: set[asyncio.Task[None]], timeout_seconds: float) -> set[asyncio.Task[None]]:
    """Wait, within a bound, for tasks to end; return those that have not."""
    if not tasks:
        return set()
    _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
    return late
