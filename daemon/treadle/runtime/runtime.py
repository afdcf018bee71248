"""The runtime: every session of a daemon, found by its pair."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from treadle.errors import Overloaded, ShuttingDown, UnknownSession
from treadle.folders import Folders
from treadle.runtime.agent_watch import AgentWatch
from treadle.runtime.census import Census, census
from treadle.runtime.left_processes import LeftProcesses
from treadle.runtime.outbox import Outbox, Pair, State, StateChanged
from treadle.runtime.ring import Kept
from treadle.runtime.services import Services
from treadle.runtime.session import Session
from treadle.runtime.snapshot import Snapshot, snapshot
from treadle.runtime.stored import copy_stored, keep_copy
from treadle.thread.catalogue import Listed, StoredThread, ThreadIndex
from treadle.thread.files import check_regular
from treadle.thread.paths import thread_path
from treadle.thread.reading import Reading
from treadle.thread.thread import Thread

logger = logging.getLogger(__name__)

# How far the numbers of closed sessions went is kept for so many; all others begin above those of
# the ones that were forgotten, so that no number is used twice.
REMEMBERED_SESSIONS = 10_000

# The pages of one list are asked for right after each other.
LISTED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session that is open or stored."""

    pair: Pair
    state: State
    messages: int
    updated_at: str | None
    held_by: int | None


class Runtime:
    """Sessions by pair, and what they share.

    A pair has at most one live object, whatever races: it is found or made without suspending,
    and everything that takes time happens in its lane.
    """

    def __init__(self, folders: Folders) -> None:
        self.services = Services(folders)
        self._sessions: dict[Pair, Session] = {}
        self._last_seqs: dict[Pair, int] = {}
        self._seq_floor = 0  # no number of a session that is not among them was higher
        self._outboxes: dict[Pair, Outbox] = {}  # watched, of sessions that are not live
        self._kept = Kept()
        # Tells this daemon's life from another's, in which the same numbers mean other events.
        self.epoch = secrets.token_hex(4)
        self._closing = False
        self._index = ThreadIndex(folders.data)
        self._listing = asyncio.Lock()  # the index is for one at a time
        self._listed: dict[Pair, Listed] = {}
        self._listed_at = -math.inf
        self.agent_watch = AgentWatch(self.services.catalogue)
        self._left_processes = LeftProcesses(folders.data)
        self.services.expiry.begin(lambda *pair: Pair(*pair) in self._sessions)

    def session(self, pair: Pair) -> Session:
        """Return the pair's session, made if there is none; it opens when it is first used.

        Contract: use it before you suspend, and ask for it anew each time; one that is closed
        and has nothing to do is forgotten.

        Raises:
            ShuttingDown: the daemon is on its way out.
            Overloaded: too many sessions are open.
        """
        if self._closing:
            raise ShuttingDown("the daemon is shutting down; start another one")
        if pair not in self._sessions:
            most = self.services.admission.settings.open_sessions
            if len(self._sessions) >= most:
                raise Overloaded(
                    f"{most} sessions are open; close some of them", retry_after_seconds=1.0
                )
            outbox = self.outbox(pair)
            self._outboxes.pop(pair, None)
            self._sessions[pair] = Session(pair, self.services, outbox, self._forget)
        return self._sessions[pair]

    def find(self, pair: Pair) -> Session | None:
        """Return the pair's session if there is a live one."""
        return self._sessions.get(pair)

    def outbox(self, pair: Pair) -> Outbox:
        """Return where a pair's events are told, whether or not there is a live session.

        Contract: watch it before you suspend; where nobody does, it is forgotten.
        """
        if (session := self._sessions.get(pair)) is not None:
            return session.outbox
        if pair not in self._outboxes:
            seq = self._last_seqs.pop(pair, self._seq_floor)
            self._outboxes[pair] = Outbox(pair, seq, self._kept)
        return self._outboxes[pair]

    def unwatched(self, pair: Pair) -> None:
        """Forget what is kept for the watchers of a session that is not live, if none are left."""
        outbox = self._outboxes.get(pair)
        if outbox is not None and not outbox.is_watched:
            del self._outboxes[pair]
            self._leave(outbox)

    def look(self, pair: Pair) -> Snapshot:
        """Return what a pair's session does now; never waits.

        Contract: as that of `outbox`.
        """
        outbox, session = self.outbox(pair), self.find(pair)
        if session is None:
            return snapshot(outbox, StateChanged("closed", 0))
        now = session.at_present
        told = StateChanged(now.state, now.queued, now.storage)
        return snapshot(outbox, told, now.turn, session.thread)

    async def summaries(
        self,
        agent: str | None = None,
        start: int = 0,
        limit: int | None = None,
        *,
        tasks: bool = False,
    ) -> tuple[list[SessionSummary], bool]:
        """List sessions, open and stored, newest first.

        Of those that are stored, only what is asked for is read.

        Args:
            agent: only this agent's.
            start: how many to leave out.
            limit: how many at most.
            tasks: those of tasks too.

        Returns:
            The sessions, and whether more follow.
        """
        async with self._listing:
            stored = await self._stored_now(is_first_page=not start)
            here = self._threads_here()
            found = [
                pair
                for pair in {**stored, **here}
                if agent in (None, pair.agent)
                and (tasks or not self._is_task(pair, stored.get(pair)))
            ]
            found.sort()
            found.sort(key=lambda pair: _updated_ns(stored.get(pair), here.get(pair)), reverse=True)
            wanted = found[start:] if limit is None else found[start : start + limit]
            files = [stored[pair] for pair in wanted if pair in stored]
            seen = await asyncio.to_thread(self._look_at, files)
        summaries = [self._summary(pair, self._threads_here().get(pair), seen) for pair in wanted]
        return [each for each in summaries if each is not None], len(found) > start + len(wanted)

    async def read(self, pair: Pair) -> Reading:
        """Look at a thread as it stands now; never waits behind a turn.

        Returns:
            What reads its pages and its view; it may block, so that is done in a worker thread.

        Raises:
            UnknownSession: nothing is open or stored under this pair.
            ThreadUnreadable: the thread's file cannot be opened.
        """
        thread = self._threads_here().get(pair)
        if thread is not None:
            return thread.reading()
        return await asyncio.to_thread(_stored, self.services.folders.data, pair)

    def copier(self, source: Pair, into: Pair, at: int | None) -> Callable[[], None]:
        """Return what makes a copy of a conversation, for `Session.begin_as`.

        What is in memory only is copied at once, everything else when that is called.

        Args:
            source: the pair to copy from.
            into: the pair whose thread the copy is to be.
            at: the last ordinal to copy; the end of what is finished if absent.

        Raises:
            NoSuchOrdinal: a conversation in memory does not hold `at`.
        """
        held = self._threads_here().get(source)
        if held is not None and held.path is None:
            return partial(keep_copy, held.copy_in_memory(at), into, self.services)
        return partial(copy_stored, source, held, into, self.services, at)

    def census(self) -> Census:
        """Count the sessions and what they do; never waits."""
        return census(self._sessions.values())

    async def close(self) -> None:
        """Interrupt every turn, close every session, stop MCP servers and models, within bounds."""
        self._closing = True
        await self.agent_watch.close()
        await self.services.expiry.close()
        # With the turns, not after them: what waits for a server is to end anyway.
        servers = asyncio.create_task(self.services.mcp.close())
        closing = [session.close("interrupted") for session in list(self._sessions.values())]
        for ended in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(ended, BaseException):
                # A lock that stays goes with the process; nothing else may stay because of it.
                logger.warning("a session could not be closed: %r", ended)
        await servers
        await self.services.models.close()
        await self._left_processes.close()

    def _threads_here(self) -> dict[Pair, Thread]:
        """Return the threads whose messages this process has: open ones, and those in memory."""
        is_open = {
            pair: session.thread
            for pair, session in self._sessions.items()
            if session.thread is not None
        }
        return {**self.services.memory, **is_open}

    async def _stored_now(self, *, is_first_page: bool) -> dict[Pair, Listed]:
        """Return what is stored; the further pages of a list go on with what the first one saw."""
        now = asyncio.get_running_loop().time()
        if is_first_page or now - self._listed_at > LISTED_SECONDS:
            listed, problems = await asyncio.to_thread(self._index.scan)
            for problem in problems:
                logger.warning("left out of the list: %s: %s", problem.path, problem.message)
            self._listed = {Pair(one.agent, one.instance): one for one in listed}
            self._listed_at = now
        return self._listed

    def _look_at(self, files: list[Listed]) -> dict[Pair, StoredThread]:
        """Read what a list shows of stored threads; those that are gone by now are left out."""
        found = {}
        for one in files:
            try:
                found[Pair(one.agent, one.instance)] = self._index.look_at(one)
            except FileNotFoundError:
                continue
            except OSError as error:
                logger.warning("left out of the list: %s: %s", one.path, error)
        return found

    def _is_task(self, pair: Pair, stored: Listed | None) -> bool:
        return stored.is_task if stored else pair in self.services.tasks

    def _summary(
        self, pair: Pair, thread: Thread | None, seen: dict[Pair, StoredThread]
    ) -> SessionSummary | None:
        """Describe a session; its file, if it has one, knows when it changed."""
        stored = seen.get(pair)
        session = self.find(pair)
        state: State = session.state if session else "closed"
        if thread is None:
            if stored is None:
                return None
            return SessionSummary(pair, state, stored.messages, stored.updated_at, stored.held_by)
        last = thread.messages[-1].at if thread.messages else None
        return SessionSummary(
            pair,
            state,
            thread.count,
            stored.updated_at if stored and thread.path else last,
            os.getpid() if session and session.thread and thread.path else None,
        )

    def _forget(self, session: Session) -> None:
        if self._sessions.get(session.pair) is session:
            del self._sessions[session.pair]
            if session.outbox.is_watched:
                self._outboxes[session.pair] = session.outbox
            else:
                self._leave(session.outbox)

    def _leave(self, outbox: Outbox) -> None:
        """Keep of a session that nobody watches how far its numbers went."""
        outbox.forget()
        self._last_seqs[outbox.pair] = outbox.last_seq
        if len(self._last_seqs) > REMEMBERED_SESSIONS:
            oldest = next(iter(self._last_seqs))
            self._seq_floor = max(self._seq_floor, self._last_seqs.pop(oldest))


def _updated_ns(stored: Listed | None, thread: Thread | None) -> int:
    """Tell when a session was last said something in, to sort by."""
    if stored is not None and (thread is None or thread.path is not None):
        return stored.updated_ns
    at = thread.messages[-1].at if thread is not None and thread.messages else ""
    try:
        return int(datetime.fromisoformat(at).timestamp() * 1000) * 10**6
    except ValueError:
        return 0


def _stored(data: Path, pair: Pair) -> Reading:
    """Look at a thread's file.

    Raises:
        UnknownSession: there is none.
        ThreadUnreadable: it cannot be opened.
    """
    path = thread_path(data, *pair)
    check_regular(path)
    if not path.exists():
        raise UnknownSession(
            f"nothing is stored for agent {pair.agent!r}, instance {pair.instance!r}"
        )
    return Reading.of_file(path)
