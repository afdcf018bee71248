"""What we ask a client: each request has an integer id, a deadline, and at most one answer.

Owns our ids and what waits for answers. Refuses to know what is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from treadle.server.wire.envelope import (
    Response,
    ResponseError,
    encode_notification,
    encode_request,
)

logger = logging.getLogger(__name__)


class ClientSaidNo(Exception):
    """The client answered with an error, which its code and its words tell."""

    def __init__(self, error: ResponseError) -> None:
        super().__init__(f"the client answered with error {error.code}")
        self.error = error


class ClientGone(Exception):
    """The connection ended before the client had answered."""


class ClientRequests:
    """Asks one client.

    Args:
        send: sends one body; must not raise or block.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._last_id = 0
        self._closed = False

    async def request(self, method: str, params: object, timeout_seconds: float) -> bytes:
        """Ask, and wait for the answer; whoever stops waiting withdraws the question.

        Args:
            method: what to ask.
            params: a structure that msgspec can encode.
            timeout_seconds: how long the client may take.

        Returns:
            The result's JSON; whether it has the right shape is for the caller to see.

        Raises:
            ClientSaidNo: it answered with an error.
            TimeoutError: it did not answer in time.
            ClientGone: the connection has ended.
        """
        if self._closed:
            raise ClientGone
        self._last_id += 1
        request_id = self._last_id
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        question = encode_request(request_id, method, params)
        self._waiting[request_id] = answer
        self._send(question)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await answer
        except (TimeoutError, asyncio.CancelledError):
            if not self._closed:
                self._send(encode_notification("$/cancelRequest", {"id": request_id}))
            raise
        finally:
            self._waiting.pop(request_id, None)

    def settle(self, response: Response) -> None:
        """Take a client's answer; one that comes late, twice or unasked is logged and dropped."""
        answer = self._waiting.get(response.id) if isinstance(response.id, int) else None
        if answer is None or answer.done():
            logger.info("the client answered what nobody waits for")
        elif response.error is not None:
            answer.set_exception(ClientSaidNo(response.error))
        else:
            answer.set_result(b"null" if response.result is None else response.result)

    def close(self) -> None:
        """Let everyone who still waits go on without an answer."""
        self._closed = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClientGone())


# What "the client did not give an answer" can mean to whoever asked.
NO_ANSWER = (ClientSaidNo, ClientGone, TimeoutError)
