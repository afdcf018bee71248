"""The runtime: every session of a daemon, found by its pair."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from treadle.errors import ShuttingDown, UnknownSession
from treadle.folders import Folders
from treadle.runtime.outbox import Pair, State
from treadle.runtime.services import Services
from treadle.runtime.session import Session
from treadle.runtime.stored import copy_stored, keep_copy
from treadle.thread.catalogue import list_threads
from treadle.thread.files import check_regular
from treadle.thread.paths import thread_path
from treadle.thread.reading import Reading
from treadle.thread.thread import Thread

logger = logging.getLogger(__name__)


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
        self._closing = False
        self.services.expiry.begin(lambda *pair: Pair(*pair) in self._sessions)

    def session(self, pair: Pair) -> Session:
        """Return the pair's session, made if there is none; it opens when it is first used.

        Contract: use it before you suspend, and ask for it anew each time; one that is closed
        and has nothing to do is forgotten.

        Raises:
            ShuttingDown: the daemon is on its way out.
        """
        if self._closing:
            raise ShuttingDown("the daemon is shutting down; start another one")
        if pair not in self._sessions:
            seq = self._last_seqs.pop(pair, 0)
            self._sessions[pair] = Session(pair, self.services, seq, self._forget)
        return self._sessions[pair]

    def find(self, pair: Pair) -> Session | None:
        """Return the pair's session if there is a live one."""
        return self._sessions.get(pair)

    async def summaries(self, agent: str | None = None) -> list[SessionSummary]:
        """List sessions, open and stored, newest first.

        Args:
            agent: only this agent's.
        """
        stored, problems = await asyncio.to_thread(list_threads, self.services.folders.data)
        for problem in problems:
            logger.warning("left out of the list: %s: %s", problem.path, problem.message)
        found = {
            Pair(each.agent, each.instance): SessionSummary(
                Pair(each.agent, each.instance),
                self._state(Pair(each.agent, each.instance)),
                each.messages,
                each.updated_at,
                each.held_by,
            )
            for each in stored
        }
        found |= {
            pair: self._summary(pair, thread, found.get(pair))
            for pair, thread in self._threads_here().items()
        }
        chosen = [each for each in found.values() if agent in (None, each.pair.agent)]
        chosen.sort(key=lambda each: each.pair)
        return sorted(chosen, key=lambda each: each.updated_at or "", reverse=True)

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

    async def close(self) -> None:
        """Interrupt every turn, close every session, stop every model; each wait is bounded."""
        self._closing = True
        await self.services.expiry.close()
        closing = [session.close("interrupted") for session in list(self._sessions.values())]
        for ended in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(ended, BaseException):
                # A lock that stays goes with the process; nothing else may stay because of it.
                logger.warning("a session could not be closed: %r", ended)
        await self.services.models.close()

    def _threads_here(self) -> dict[Pair, Thread]:
        """Return the threads whose messages this process has: open ones, and those in memory."""
        is_open = {
            pair: session.thread
            for pair, session in self._sessions.items()
            if session.thread is not None
        }
        return {**self.services.memory, **is_open}

    def _state(self, pair: Pair) -> State:
        session = self.find(pair)
        return session.state if session else "closed"

    def _summary(self, pair: Pair, thread: Thread, stored: SessionSummary | None) -> SessionSummary:
        """Describe a thread of this process; its file, if it has one, knows when it changed."""
        session = self.find(pair)
        last = thread.messages[-1].at if thread.messages else None
        return SessionSummary(
            pair,
            self._state(pair),
            thread.count,
            stored.updated_at if stored and thread.path else last,
            os.getpid() if session and session.thread and thread.path else None,
        )

    def _forget(self, session: Session) -> None:
        if self._sessions.get(session.pair) is session:
            del self._sessions[session.pair]
            self._last_seqs[session.pair] = session.outbox.last_seq


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
