"""A connection's whole life in one task, as the SDK wants it: opened, agreed, held, closed.

Owns the order of that. Refuses to know who waits for it, and for how long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.lost import Lost
from treadle.mcp.remote import Era, Host
from treadle.mcp.sdk import messages
from treadle.mcp.sdk.gate import Gate
from treadle.mcp.sdk.listening import hear_changes
from treadle.mcp.sdk.refusal import told
from treadle.mcp.sdk.session import Session, agree
from treadle.mcp.sdk.speaking import Speaking
from treadle.mcp.sdk.web import open_url
from treadle.mcp.stdio import open_pipes
from treadle.process.child import Child


class Engine:
    """A connection; `run` is its life.

    Args:
        declaration: the server.
        host: who answers it.
        child: its process; None behind a url.
        noise: told what it prints that is no message.

    Attributes:
        ready: done once both sides have agreed how to speak, or failed to, by `RemoteError`.
        lost: whether it is over; `lost.leave` ends it.
    """

    def __init__(
        self,
        declaration: ServerDeclaration,
        host: Host,
        child: Child | None,
        noise: Callable[[bytes], None],
    ) -> None:
        self.ready: asyncio.Future[Speaking] = asyncio.get_running_loop().create_future()
        self.lost = Lost()
        self._declaration = declaration
        self._host = host
        self._child = child
        self._noise = noise

    async def run(self, era: Era | None) -> None:
        """Live until the connection is over; raises nothing.

        Args:
            era: how the server spoke the last time.
        """
        try:
            async with self._streams() as (incoming, outgoing):
                await self._speak(Gate(incoming, outgoing, self.lost), era)
        # Groups of errors are all that some parts of the SDK raise, and may hold a cancellation.
        except (Exception, BaseExceptionGroup) as error:
            self._failed(error)

    def _streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        if self._child is None:
            return open_url(self._declaration, self.lost)
        return open_pipes(
            self._child,
            read=messages.read,
            encode=messages.encode,
            noise=self._noise,
            lost=self.lost,
        )

    async def _speak(self, gate: Gate, era: Era | None) -> None:
        speaking: Speaking | None = None
        try:
            async with Session(gate, self._host) as session:
                try:
                    agreed = await agree(session, era)
                    speaking = Speaking(session, agreed, self._host, self.lost)
                    await self._hold(speaking, session)
                finally:
                    gate.shut()
        finally:
            if speaking is not None:
                speaking.end()

    async def _hold(self, speaking: Speaking, session: Session) -> None:
        hearing = asyncio.create_task(self._hear(speaking, session))
        try:
            if not self.ready.done():
                self.ready.set_result(speaking)
            await self.lost.wait_over()
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    async def _hear(self, speaking: Speaking, session: Session) -> None:
        if speaking.era == "modern":
            await hear_changes(session, self._host)

    def _failed(self, error: BaseException) -> None:
        why = told(error)
        if self.ready.done():
            self.lost.because(why.message)
        elif not self.lost.why:
            self.ready.set_exception(why)
