"""A look at the agents now and then, for those who want to hear when they change.

Owns the one task that looks, which is there only while somebody listens, and that a change is
told once it has settled. Refuses to know what a change means and how it is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from treadle.agents.catalogue import Catalogue
from treadle.agents.changes import CONFIG, AgentChange, Seen, differences, look

logger = logging.getLogger(__name__)

# A person who saves a file and turns to the chat is not there sooner. A look at a hundred agents
# that have not changed costs a millisecond, so no library that is told by the system is loaded.
LOOK_SECONDS = 1.0

# An editor that writes a file in two steps is done by then; what is told was seen twice.
SETTLE_SECONDS = 0.2

# A folder that is replaced as a whole is told as one change, which says that any agent may be
# another.
MOST_TOLD = 50

# The look under way is in a worker thread and ends by itself; nobody waits longer for it.
CLOSE_SECONDS = 1.0

Tell: TypeAlias = Callable[[AgentChange], None]
"""Hears of a change. Contract: must neither raise nor block."""


@dataclass(eq=False, slots=True)
class Listener:
    """Whoever hears of changes.

    Args:
        tell: hears of each.
        workspaces: gives the folders whose own agents count.
    """

    tell: Tell
    workspaces: Callable[[], Sequence[Path]]
    told: dict[str, Seen] = field(default_factory=dict)
    last: dict[str, Seen] = field(default_factory=dict)
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)


class AgentWatch:
    """Looks at the agents while somebody listens.

    Args:
        catalogue: the agents.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def listen(self, tell: Tell, workspaces: Callable[[], Sequence[Path]]) -> Listener:
        """Tell somebody of every change from now on."""
        listener = Listener(tell, workspaces)
        if self._is_closed:
            listener.has_begun.set()
            return listener
        self._listeners.append(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._look_on())
        return listener

    async def begun(self, listener: Listener) -> None:
        """Wait for the first look: what changes after it is told."""
        await listener.has_begun.wait()

    def leave(self, listener: Listener) -> None:
        """Tell somebody nothing more; safe to call twice."""
        listener.has_begun.set()
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task = None

    async def close(self) -> None:
        """Look no more."""
        self._is_closed = True
        for listener in tuple(self._listeners):
            self.leave(listener)
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSE_SECONDS)

    async def _look_on(self) -> None:
        while True:
            looks = [await self._look(listener) for listener in tuple(self._listeners)]
            await asyncio.sleep(LOOK_SECONDS if all(looks) else SETTLE_SECONDS)

    async def _look(self, listener: Listener) -> bool:
        """Look once for one listener; return whether all that it saw has been told."""
        try:
            now = await asyncio.to_thread(look, self._catalogue, listener.workspaces())
        except Exception:
            # Whatever it is, the next look may not meet it, and the agents are there without.
            logger.exception("a look for changed agents failed")
            return True
        finally:
            is_first = not listener.has_begun.is_set()
            listener.has_begun.set()
        if is_first:
            listener.told = listener.last = now
            return True
        settled = _settled(listener, now)
        listener.last = now
        self._tell(listener, differences(listener.told, settled))
        listener.told = settled
        return settled == now

    def _tell(self, listener: Listener, changes: list[AgentChange]) -> None:
        if len(changes) > MOST_TOLD:
            changes = [AgentChange(CONFIG, "changed")]
        for change in changes:
            listener.tell(change)


def _settled(listener: Listener, now: dict[str, Seen]) -> dict[str, Seen]:
    """Return what was told, with everything in it that was seen now and at the last look."""
    settled = {}
    for name in listener.told.keys() | now.keys():
        is_twice = listener.last.get(name) == now.get(name)
        seen = now.get(name) if is_twice else listener.told.get(name)
        if seen is not None:
            settled[name] = seen
    return settled
