"""What one session holds, and on what terms: taken, changed and given back in the session's lane.

Owns its opening, its copy from another thread, its rewinding, eviction and deletion. Refuses to
know turns, and whom any of it is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from treadle.agents.options import SessionOptions
from treadle.errors import StorageDegraded, TreadleError
from treadle.mcp.session_servers import SessionServers
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.runtime.opened import Opened, Released, Terms, open_session
from treadle.runtime.outbox import Pair, Storage
from treadle.runtime.recovery import Recovery
from treadle.runtime.respondent import Respondent
from treadle.runtime.services import Services
from treadle.runtime.shown import shown
from treadle.runtime.stored import delete_stored, exists, require_deletable
from treadle.thread.thread import Thread
from treadle.tools.commands.running import JobEnd
from treadle.turn.steering import Inbox

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Closed:
    """What a close gave back; true where the session was open.

    Args:
        was_open: there was something to give back.
        jobs: the commands that ran and were stopped.
        servers: the MCP servers that were stopped.
    """

    was_open: bool
    jobs: tuple[JobEnd, ...] = ()
    servers: tuple[ServerEnd, ...] = ()

    def __bool__(self) -> bool:
        return self.was_open


class Holding:
    """The thread, place and model of one session, while they are held.

    Args:
        pair: whose session.
        services: the daemon's.
        respondent: whom its turns can ask.
        on_change: called when the thread's storage has changed.
        tell: told how the session's MCP servers are doing.
        has_others: whether others than whoever asks watch the session.

    Attributes:
        opened: what is held.
        terms: on what the session is open, whether or not anything is held.

    Contract: `on_change` and `tell` must neither raise nor block. Whatever suspends here is called
    in the session's lane, one at a time.
    """

    def __init__(
        self,
        pair: Pair,
        services: Services,
        respondent: Respondent,
        on_change: Callable[[], None],
        tell: Callable[[ServerStatus], None],
        has_others: Callable[[], bool] = lambda: False,
    ) -> None:
        self._has_others = has_others
        self.opened: Opened | None = None
        self.terms: Terms | None = None
        self._pair = pair
        self._tell = tell
        self._services = services
        self._respondent = respondent
        self._recovery = Recovery(on_change)
        self._storage: Storage = "ok"  # what is known of it while no thread is held

    @property
    def thread(self) -> Thread | None:
        """The thread that is held; to be read, never changed."""
        return self.opened.thread if self.opened else None

    @property
    def servers(self) -> SessionServers | None:
        """The MCP servers, while something is held."""
        return self.opened.servers if self.opened else None

    @property
    def storage(self) -> Storage:
        """Whether all that was said is kept."""
        return self.opened.thread.storage if self.opened else self._storage

    async def open(self, options: SessionOptions, default_cwd: Path | None) -> Opened:
        """Open the session, or find it open with these options.

        One that works in the folder of a client that is gone is opened anew in that of the one
        that is here now; where others watch it, it stays where they know it.

        Raises:
            RequestFailed: it cannot be opened, or is open with other options.
        """
        if self.terms is not None:
            self.terms.require(options)
            if self.terms.is_left_by(default_cwd) and self._may_move:
                await self.close()
        if self.opened is None:
            terms = self.terms or Terms(options, default_cwd)
            self.opened = await asyncio.to_thread(
                open_session, self._pair, self._services, terms, self._respondent, self._tell
            )
            self.terms = self.opened.terms
            self._recovery.follow(self.opened.thread)
            await self.opened.begin()
            messages = self.opened.thread.count
            logger.info("%s is open, with %d messages", shown(self._pair), messages)
        return self.opened

    @property
    def _may_move(self) -> bool:
        if self._has_others() or self.storage != "ok":
            return False
        return self.opened is None or not self.opened.is_busy

    async def begin_as(self, copy: Callable[[], None], default_cwd: Path | None) -> Thread:
        """Open the session with a thread that is a copy of another one.

        Raises:
            ThreadExists: the session is open, so there is a thread.
            RequestFailed: it cannot be copied, or not be opened.
        """
        if self.terms is not None:
            raise exists(self._pair, self._services)
        await asyncio.to_thread(copy)
        return (await self.open(SessionOptions(), default_cwd)).thread

    async def rewind(self, to: int, default_cwd: Path | None) -> int:
        """End the conversation at an ordinal; return how many messages it holds.

        Raises:
            NoSuchOrdinal: it does not hold that message.
            RequestFailed: the session cannot be opened.
        """
        opened = await self.open(SessionOptions(), default_cwd)
        return await opened.thread.rewind(to)

    async def let_go_at_once(self, inbox: Inbox) -> None:
        """Let go under a turn that would not end: it can say nothing more.

        On the loop, not in a worker: that turn may be about to write. The next prompt opens the
        thread anew, which ends the turn in the file as interrupted.

        Args:
            inbox: what that turn took and will never let in itself.
        """
        opened, self.opened = self.opened, None
        if opened is None:
            return
        await self._recovery.leave()
        try:
            while (message := inbox.take()) is not None:
                await opened.thread.append(message)
        except TreadleError:
            logger.exception("what was said to a turn that is left behind could not be kept")
        try:
            opened.close()
        except StorageDegraded:
            self._storage = "degraded"  # the log says where it lies
        await opened.release_tools()

    async def evict(self) -> None:
        """Let go of what nobody uses; the terms stay.

        Not where a job runs in the background, nor where what was said is nowhere but here.
        """
        if (
            self.opened is not None
            and self.opened.thread.storage == "ok"
            and not self.opened.is_busy
        ):
            await self._let_go()

    async def close(self) -> Closed:
        """Give everything back.

        Raises:
            StorageDegraded: not all that was said could be kept in the thread.
        """
        was_open = self.terms is not None
        try:
            released = await self._let_go()
            return Closed(was_open, released.jobs, released.servers)
        finally:
            self.terms = None
            self._respondent.forget()

    async def delete(self) -> bool:
        """Close the session and delete its thread; return whether there was one.

        Raises:
            RequestFailed: another process holds it, or it cannot be deleted; a session on a disk
                that cannot be written stays open.
        """
        await asyncio.to_thread(require_deletable, self._pair, self._services)
        # What could not be kept is to go anyway.
        with contextlib.suppress(StorageDegraded):
            await self.close()
        kept = self._services.forget(self._pair)
        stored = await asyncio.to_thread(delete_stored, self._pair, self._services)
        return stored or kept is not None

    async def _let_go(self) -> Released:
        opened, self.opened = self.opened, None
        if opened is None:
            return Released()
        await self._recovery.leave()
        released = await opened.release_tools()
        self._storage = "ok"
        try:
            await asyncio.to_thread(opened.close)
        except StorageDegraded:
            self._storage = "degraded"
            raise
        finally:
            logger.info("%s is held no longer", shown(self._pair))
        return released
