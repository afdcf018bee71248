"""What every session of a daemon shares: definitions, models, folders, the bound on turns."""

from __future__ import annotations

import asyncio

from treadle.agents.catalogue import Catalogue
from treadle.agents.config import SessionSettings
from treadle.folders import Folders
from treadle.mcp.pool import Pool
from treadle.models.provider import Models
from treadle.runtime.admission import Admission
from treadle.runtime.expiry import Expiry
from treadle.runtime.outbox import Pair
from treadle.runtime.resting import Resting
from treadle.thread.thread import Thread


class Services:
    """Made once per daemon; cheap to make, so that nothing of weight loads before it is used.

    Attributes:
        memory: the threads that are kept in memory only (`durability = "memory"`), also of
            sessions that are closed; they live as long as the daemon.
        tasks: which of those are tasks', and of which session.
        expiry: deletes threads whose time has come.
        mcp: the MCP servers of all sessions.
        resting: the sessions that are held and do nothing.
        admission: bounds on what waits.
    """

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.catalogue = Catalogue(folders.config)
        self.models = Models(folders.cache)
        self.memory: dict[Pair, Thread] = {}
        self.tasks: dict[Pair, Pair] = {}
        self.expiry = Expiry(folders.data, self.catalogue)
        self.mcp = Pool(folders)
        self._turn_slots: asyncio.Semaphore | None = None
        self.resting = Resting(SessionSettings().held_sessions)
        self.admission = Admission(self.resting.relieve)

    def forget(self, pair: Pair) -> Thread | None:
        """Forget a thread that is kept in memory, and those of its tasks; return it."""
        for task in [task for task, parent in self.tasks.items() if parent == pair]:
            self.memory.pop(task, None)
            del self.tasks[task]
        return self.memory.pop(pair, None)

    async def turn_slots(self) -> asyncio.Semaphore:
        """Return the bound on turns that run at once across all sessions.

        Fair between sessions: waiters are served in order, and a session waits for one at a time.
        The configuration's figure is read once, at the first turn.

        Raises:
            InvalidAgent: `config.toml` is broken and never was good.
        """
        if self._turn_slots is None:
            config = await asyncio.to_thread(self.catalogue.config)
            # Another session may have been quicker while the file was read.
            self._turn_slots = self._turn_slots or asyncio.Semaphore(
                config.sessions.turns_in_flight
            )
            self.admission.settings = config.sessions
            self.resting.most = config.sessions.held_sessions
        return self._turn_slots
