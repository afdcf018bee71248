"""The runtime: every session of a daemon, found by its pair."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from treadle.errors import ShuttingDown, TreadleError, UnknownSession
from treadle.folders import Folders
from treadle.runtime.outbox import Pair, State
from treadle.runtime.services import Services
from treadle.runtime.session import Session
from treadle.thread.catalogue import list_threads
from treadle.thread.message import Message
from treadle.thread.paths import thread_path
from treadle.thread.repair import view
from treadle.thread.replay import load


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

    def session(self, pair: Pair) -> Session:
        """Return the pair's session, made if there is none; it opens when it is first used.

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
        stored = await asyncio.to_thread(list_threads, self.services.folders.data)
        summaries = {
            Pair(thread.agent, thread.instance): SessionSummary(
                Pair(thread.agent, thread.instance),
                "closed",
                thread.messages,
                thread.updated_at,
                thread.held_by,
            )
            for thread in stored
        }
        for pair, session in self._sessions.items():
            if session.thread is not None:
                before = summaries.get(pair)
                summaries[pair] = SessionSummary(
                    pair,
                    session.state,
                    len(session.thread.messages),
                    before.updated_at if before else None,
                    before.held_by if before else None,
                )
        return [each for each in summaries.values() if agent in (None, each.pair.agent)]

    async def read(self, pair: Pair, *, model_view: bool = False) -> list[Message]:
        """Return a thread's messages, oldest first; never waits behind a turn.

        Args:
            pair: whose thread.
            model_view: what would be sent to a model, instead of what was said.

        Raises:
            UnknownSession: nothing is open or stored under this pair.
            ThreadUnreadable: the thread's file cannot be opened.
        """
        session = self.find(pair)
        if session is not None and session.thread is not None:
            messages = list(session.thread.messages)
        else:
            path = thread_path(self.services.folders.data, *pair)
            if not path.exists():
                raise UnknownSession(
                    f"nothing is stored for agent {pair.agent!r}, instance {pair.instance!r}"
                )
            messages = (await asyncio.to_thread(load, path)).messages
        return view(messages) if model_view else messages

    async def close(self) -> None:
        """Interrupt every turn, close every session, stop every model; each wait is bounded."""
        self._closing = True
        closing = [session.close("interrupted") for session in list(self._sessions.values())]
        for ended in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, TreadleError):
                raise ended
        await self.services.models.close()

    def _forget(self, session: Session) -> None:
        if self._sessions.get(session.pair) is session:
            del self._sessions[session.pair]
            self._last_seqs[session.pair] = session.outbox.last_seq
