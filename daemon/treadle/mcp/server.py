"""One MCP server, from its start to its stop, however often it is started in between.

Owns its process and its connection: one task holds both for as long as they are there, so that
every way to end goes through the same ladder. Refuses to know the protocol (`connection`), who
uses it (`session_servers`, `pool`) and when it may be started again (`breaker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle.mcp.breaker import Breaker
from treadle.mcp.callers import Callers
from treadle.mcp.chatter import Chatter
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.host import ServerHost
from treadle.mcp.launching import CannotStart, launch
from treadle.mcp.lost import end_at_last, why_over
from treadle.mcp.memory import Memory
from treadle.mcp.naming import tool_names
from treadle.mcp.redaction import without_secrets
from treadle.mcp.remembered import Known, Remembered
from treadle.mcp.remote import (
    Connection,
    RemoteError,
    RemotePrompt,
    RemoteResource,
    RemoteResult,
    RemoteTool,
)
from treadle.mcp.status import ServerEnd, ServerState, ServerStatus
from treadle.process.child import Child
from treadle.sanitise import clean_line
from treadle.tools.tool import ToolContext

logger = logging.getLogger(__name__)

# A connection that is being left tells its server so, or not; its process is stopped meanwhile.
LEAVE_SECONDS = 1.5

# A change shows at the next step of a turn, which takes longer than this.
LIST_GAP_SECONDS = 0.5

# The connection's own bound on a call: ours stands still while a person is asked, and is shorter.
_LONGEST_CALL_SECONDS = 24 * 3600.0


class Server:
    """One server.

    Args:
        declaration: what it is, as it was declared: nothing in it is expanded yet.
        folder: where its session works: it runs there, and it is its root.
        remembered: what is known of servers from before.
        breaker: the server's, shared by all who have it.
        on_change: called with it whenever its status has changed.
            Contract: neither raises nor blocks.

    Attributes:
        declaration: as above.
        state: what it does now.
        tools: those that are taken from it: as it lists them, or listed them before.
        offers: which of `tools`, `resources` and `prompts` it has.
        about: its own name and version, as it says them; empty until it has.
    """

    def __init__(
        self,
        declaration: ServerDeclaration,
        *,
        folder: Path | None,
        remembered: Remembered,
        breaker: Breaker,
        on_change: Callable[[Server], None],
    ) -> None:
        self.declaration = declaration
        self.state: ServerState = "stopped"
        self.tools: tuple[RemoteTool, ...] = ()
        self.offers: frozenset[str] = frozenset()
        self.about = ""
        self._folder = folder
        self._memory = Memory(remembered, declaration)
        self._breaker = breaker
        self._on_change = on_change
        self._callers = Callers()
        self._child: Child | None = None
        self._connection: Connection | None = None
        self._ready_at = 0.0
        self._chatter = Chatter()
        self._error = ""
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()  # it is neither being started nor about to be
        self._settled.set()
        self._stop_asked = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._began = 0.0  # when it was begun last
        self._end: ServerEnd | None = None

    @property
    def status(self) -> ServerStatus:
        """How it is doing."""
        names = tool_names(self.declaration.name, [tool.name for tool in self.tools], ())
        return ServerStatus(
            self.declaration.name,
            self.state,
            pid=self._child.pid if self._child and self._child.exit_code is None else None,
            tools=tuple(names.values()),
            error=clean_line(self._error),
            stderr_tail=self._chatter.tail,
            shared=self.declaration.scope == "agent",
            era=self._memory.era,
            about=clean_line(self.about),
        )

    @property
    def is_known(self) -> bool:
        """Whether its tools are known, be it from before."""
        return self._memory.known is not None

    @property
    def is_starting(self) -> bool:
        """Whether it is being started, or about to be again."""
        return not self._settled.is_set()

    @property
    def begun_seconds(self) -> float:
        """How long ago it was begun last."""
        return time.monotonic() - self._began

    async def recall(self) -> None:
        """Learn what is remembered of it, so that its tools are there before it is."""
        if self.is_known:
            return
        known = await self._memory.recall()
        if known is not None and not self.tools:
            # What is secret may have been named since.
            self.tools = self._taken(without_secrets(known.tools))
            self.offers = known.offers

    def begin(self) -> None:
        """Start it, unless it runs or failed so lately that it is too early to try again."""
        if self._stop_asked.is_set() or (self._owner is not None and not self._owner.done()):
            return
        if self._breaker.wait_seconds > 0:
            if not self._error:
                self._error = "it failed for another session a moment ago"
            self._become("failed")
            return
        self._settled.clear()
        self._began = time.monotonic()
        self._become("starting")
        self._owner = asyncio.create_task(self._own(), name=f"mcp-{self.declaration.name}")

    async def wait_settled(self, seconds: float) -> None:
        """Wait, within a bound, until it is ready or has failed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._settled.wait()

    async def call(
        self, tool: str, arguments: dict[str, Any], context: ToolContext
    ) -> RemoteResult:
        """Call a tool; starts the server if it does not run.

        Raises:
            RemoteError: it is not there, does not answer in time, or refuses.
        """
        connection = await self._connected()
        ready_at, seconds = self._ready_at, self.declaration.call_seconds
        try:
            async with self._callers.call(context, seconds):
                result = await connection.call(
                    tool, arguments, seconds=_LONGEST_CALL_SECONDS, progress=context.progress
                )
        except TimeoutError:
            raise RemoteError(
                f"{self.declaration.name} was told to stop after {seconds:g} s without an answer "
                f"to {tool}; it may have had effects"
            ) from None
        self._breaker.answered(ready_at)
        return result

    async def list_resources(self) -> tuple[RemoteResource, ...]:
        """Return its resources; see `remote.Connection`."""
        return await (await self._connected()).list_resources(self.declaration.call_seconds)

    async def read_resource(self, uri: str) -> tuple[dict[str, Any], ...]:
        """Return what a resource holds; see `remote.Connection`."""
        return await (await self._connected()).read_resource(uri, self.declaration.call_seconds)

    async def list_prompts(self) -> tuple[RemotePrompt, ...]:
        """Return its prompts; see `remote.Connection`."""
        return await (await self._connected()).list_prompts(self.declaration.call_seconds)

    async def get_prompt(
        self, name: str, arguments: dict[str, str]
    ) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return a prompt's messages; see `remote.Connection`."""
        connection = await self._connected()
        return await connection.get_prompt(name, arguments, self.declaration.call_seconds)

    async def stop(self) -> ServerEnd | None:
        """End it for good, with all it started; safe to call any number of times.

        Returns:
            How its process ended; None where nothing of it ran.
        """
        ran = self._owner is not None and not self._owner.done()
        self._stop_asked.set()
        if self._owner is not None:
            # It is never cancelled, and what it does once it is asked to stop is bounded.
            await asyncio.wait({self._owner})
        self._become("stopped")
        return self._end if ran else None

    async def _connected(self) -> Connection:
        """Return the connection, waiting for a start that is under way.

        Raises:
            RemoteError: there is none.
        """
        self.begin()
        await self.wait_settled(self.declaration.start_seconds)
        if self._connection is None:
            why = self._error or "it is not ready yet"
            raise RemoteError(f"the MCP server {self.declaration.name} is not there: {why}")
        return self._connection

    async def _own(self) -> None:
        """Hold the server, restarting it when it is lost, until it fails or is to stop."""
        try:
            while not self._stop_asked.is_set():
                began = time.monotonic()
                was_ready, why = await self._live()
                if self._stop_asked.is_set():
                    return
                self._breaker.failed(time.monotonic() - began if was_ready else 0.0)
                self._error = why
                logger.warning("the MCP server %s: %s", self.declaration.name, self._error)
                if not was_ready or not await self._may_restart():
                    return
        except Exception:
            logger.exception("the MCP server %s is held no longer", self.declaration.name)
            self._error = "the daemon failed to hold it; its log says how"
        finally:
            self._become("stopped" if self._stop_asked.is_set() else "failed")
            self._settled.set()

    async def _may_restart(self) -> bool:
        """Wait until it may be started again; tell whether it may, which others decide as well."""
        while not self._stop_asked.is_set() and (seconds := self._breaker.wait_seconds):
            if self._breaker.is_open:
                return False
            self._settled.clear()
            self._become("restarting")
            await self._wait_for_stop(seconds)
        return True

    async def _live(self) -> tuple[bool, str]:
        """Start it, and hold it until it ends or is to stop.

        Returns:
            Whether it was ready, and why it is there no more.
        """
        self._chatter = Chatter()
        await self.recall()
        try:
            launched = await launch(self.declaration, self._folder)
        except CannotStart as error:
            return False, str(error)
        self._child = launched.child
        self._chatter = Chatter(launched.child)
        serving = asyncio.create_task(self._serve(launched.declaration))
        stopping = asyncio.create_task(self._stop_asked.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            was_ready = self._connection is not None
            self._connection = None
            if was_ready and not self._stop_asked.is_set():
                # Whoever calls meanwhile waits for the next start.
                self._settled.clear()
                self._become("restarting")
            await self._wind_down(serving)
        return was_ready, why_over(serving)

    async def _serve(self, declaration: ServerDeclaration) -> str:
        """Connect, and stay so until the connection is lost; return why that was.

        Raises:
            RemoteError: it cannot be connected with.
        """
        # Its package takes half a second to load, once.
        from treadle.mcp.connection import connect

        host = ServerHost(declaration, self._folder, self._callers, self._changed.set)
        seconds = declaration.start_seconds
        deadline = asyncio.timeout(seconds)
        try:
            async with (
                deadline,
                connect(
                    declaration,
                    host,
                    child=self._child,
                    era=self._memory.era,
                    noise=self._chatter.note,
                ) as connection,
            ):
                await self._list(connection, seconds)
                deadline.reschedule(None)
                self._connection, self._ready_at = connection, time.monotonic()
                self._become("ready")
                self._settled.set()
                return await self._follow(connection)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise RemoteError(f"it was not ready after {seconds:g} s") from None

    async def _follow(self, connection: Connection) -> str:
        """List its tools anew whenever they change, until it is lost; return why that was."""
        lost = asyncio.create_task(connection.wait_lost())
        try:
            while not lost.done():
                changed = asyncio.create_task(self._changed.wait())
                try:
                    await asyncio.wait({lost, changed}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if self._changed.is_set() and not lost.done():
                    self._changed.clear()
                    await self._list_again(connection)
                    # A server that tells of changes without pause is not listed without pause.
                    await asyncio.wait({lost}, timeout=LIST_GAP_SECONDS)
            return lost.result()
        finally:
            lost.cancel()

    async def _list_again(self, connection: Connection) -> None:
        before = (self.tools, self.offers, self._error)
        try:
            await self._list(connection, self.declaration.start_seconds)
        except RemoteError as error:
            self._error = f"its tools could not be listed again: {error.message}"
        if (self.tools, self.offers, self._error) != before:
            self._on_change(self)

    async def _list(self, connection: Connection, seconds: float) -> None:
        """Learn its tools, and remember them."""
        offers = connection.offers
        said = await connection.list_tools(seconds) if "tools" in offers else ()
        listed = without_secrets(said)
        await self._memory.learn(Known(connection.era, listed, offers))
        self.tools, self.offers, self.about = self._taken(listed), offers, connection.server
        self._error = ""

    async def _wind_down(self, serving: asyncio.Task[str]) -> None:
        """Leave the connection and climb down the ladder, side by side."""
        serving.cancel()
        ending = [asyncio.create_task(self._stop_child())]
        await asyncio.wait({serving, *ending}, timeout=LEAVE_SECONDS)
        await ending[0]
        if not serving.done():
            # Its process is gone, or its server is elsewhere: it can reach nothing any more.
            logger.error("the connection with %s does not end", self.declaration.name)
            serving.add_done_callback(end_at_last)

    async def _stop_child(self) -> None:
        child = self._child
        if child is None:
            self._end = ServerEnd(self.declaration.name, None, None, "exit")
            return
        ended = await child.stop()
        self._child = None
        self._end = ServerEnd(self.declaration.name, ended.pid, ended.exit_code, ended.by)

    async def _wait_for_stop(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop_asked.wait()

    def _taken(self, listed: tuple[RemoteTool, ...]) -> tuple[RemoteTool, ...]:
        """Return those of its tools that its declaration takes."""
        return tuple(tool for tool in listed if self.declaration.takes(tool.name))

    def _become(self, state: ServerState) -> None:
        if state != self.state:
            self.state = state
            self._on_change(self)
