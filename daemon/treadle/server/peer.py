"""What a handler knows of the client it works for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

from treadle.protocol.base import WireStruct
from treadle.runtime.outbox import Outbox, Pair, SessionEvent
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Session
from treadle.server.agent_news import AgentNews
from treadle.server.asides import Asides
from treadle.server.editor.buffers import EditorBuffers
from treadle.server.editor.tenant import Editor
from treadle.server.feed import Feed
from treadle.server.home import Home
from treadle.server.joining import is_late
from treadle.server.mcp_news import McpNews
from treadle.server.person import Person
from treadle.server.progress import ProgressBoard

# What was begun aside of any request gets this long to end once it was told to.
LEAVE_SECONDS = 1.0

# Pages of threads that are made, or wait to be sent, are this many at most: each may be megabytes,
# and a disk that is slow with one thread should not hold up the reading of another.
PAGES_AT_ONCE = 4


class Peer:
    """One client: the runtime it reaches, where it works, and how it hears of its sessions.

    Args:
        runtime: the daemon's.
        editor: what its editor can be asked and told.
        person: whom its turns can ask.
        folders: those it works in, the first one foremost; they may change.
        home: what its daemon is.
        shows_results: it shows the results of its commands itself.
        notify: sends it one notification.
        pending_bytes: how much of what was sent it has not taken.
        opt_out: notifications that it does not want.

    Attributes:
        agents: what it hears of agents.
        buffers: what it has open in its editor, as tools see it.
        arrival: held by a prompt that is on its way to its session, so that none overtakes it.
        pages: held by whoever makes a page of a thread, until it can be sent.
    """

    def __init__(
        self,
        runtime: Runtime,
        editor: Editor,
        person: Person,
        folders: list[Path],
        *,
        home: Home,
        shows_results: bool,
        notify: Callable[[str, WireStruct], None],
        pending_bytes: Callable[[], int],
        opt_out: frozenset[str],
    ) -> None:
        self.runtime = runtime
        self.editor = editor
        self.buffers = EditorBuffers(editor)
        self.person = person
        self.home = home
        self.shows_results = shows_results
        self.arrival = asyncio.Lock()
        self.progress = ProgressBoard(notify, pending_bytes, self.aside)
        self._folders = folders
        self.pages = asyncio.Semaphore(PAGES_AT_ONCE)
        self._pending_bytes = pending_bytes
        self._has_read = asyncio.Event()
        self._is_leaving = False
        self._feed = Feed(notify, pending_bytes, opt_out, person)
        self.agents = AgentNews(runtime, person, folders, notify, opt_out)
        self._servers = McpNews(runtime.services.mcp, notify, opt_out)
        # Weak, because a session that was closed and opened anew has another outbox.
        self._watched: WeakSet[Outbox] = WeakSet()
        self._asides = Asides()

    @property
    def default_cwd(self) -> Path | None:
        """The folder that it works in, for agents that name none of their own."""
        return self._folders[0] if self._folders else None

    def session(self, pair: Pair) -> Session:
        """Return a session, made if need be, with this client watching it."""
        session = self.runtime.session(pair)
        self.watch(session.outbox)
        return session

    def watch(self, outbox: Outbox) -> None:
        """Hear of a session from now on, and be asked what it asks."""
        outbox.watch(self._feed.take, self.person)
        self._watched.add(outbox)

    def watch_anew(self, outbox: Outbox) -> None:
        """The same, without what is still held back for it."""
        self._feed.drop(outbox.pair)
        self.watch(outbox)

    def unwatch(self, outbox: Outbox) -> None:
        """Hear of a session no more, not even what was held back."""
        outbox.unwatch(self._feed.take, self.person)
        self._watched.discard(outbox)
        self._feed.drop(outbox.pair)
        self.runtime.unwatched(outbox.pair)

    def watches(self, outbox: Outbox) -> bool:
        """Whether it hears of a session."""
        return outbox in self._watched

    def replay(self, events: Sequence[SessionEvent]) -> None:
        """Hear of what happened before it watched."""
        for event in events:
            self._feed.take(event)

    def reads_again(self) -> None:
        """Send what was held back while it was slow."""
        self._feed.release_all()
        self.progress.release_all()
        self._has_read.set()

    async def until_it_reads(self) -> None:
        """Wait while it is late; who waits here then sends at once, one after the other.

        As long as the connection: a client may rest for days, and ends what it waits for by
        cancelling it or by going away.
        """
        while is_late(self._pending_bytes()) and not self._is_leaving:
            self._has_read.clear()
            await self._has_read.wait()

    def wait_no_more(self) -> None:
        """Let go on what waits for it: the connection ends."""
        self._is_leaving = True
        self._has_read.set()

    def aside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something that no request waits for; it ends with the connection."""
        self._asides.start(work)

    async def leave(self) -> None:
        """Stop watching; the sessions go on without this client."""
        self.agents.leave()
        self._servers.leave()
        for outbox in tuple(self._watched):
            self.unwatch(outbox)
        await self._asides.close(LEAVE_SECONDS)
