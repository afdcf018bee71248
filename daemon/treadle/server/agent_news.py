"""What a client hears of agents without asking: that they change, and which need its trust.

Owns what is sent, and that a client is asked once for what lies in a workspace. Refuses to know
how changes are found and where trust is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from treadle.agents.catalogue import Catalogue
from treadle.agents.changes import AgentChange
from treadle.agents.workspace import Workspace
from treadle.errors import ConfigurationError
from treadle.protocol.agents import AgentChangedNotification, RequestTrustParams
from treadle.protocol.base import WireStruct
from treadle.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

# A person is to look at the files before they answer.
TRUST_SECONDS = 600.0


class Truster(Protocol):
    """Whoever can be asked for trust."""

    async def request_trust(self, params: RequestTrustParams, timeout_seconds: float) -> bool:
        """Ask whether a workspace's agents are trusted.

        Contract: False where nobody can be asked or nothing clear was answered. Raises
        TimeoutError where the time is up.
        """


class AgentNews:
    """Tells one client of agents.

    Args:
        runtime: the daemon's.
        person: is asked for trust.
        folders: where the client works; they may change.
        notify: sends it one notification.
        opt_out: notifications that it does not want.
    """

    def __init__(
        self,
        runtime: Runtime,
        person: Truster,
        folders: list[Path],
        notify: Callable[[str, WireStruct], None],
        opt_out: frozenset[str],
    ) -> None:
        self._watch = runtime.agent_watch
        self._catalogue: Catalogue = runtime.services.catalogue
        self._person = person
        self._folders = folders
        self._notify = notify
        self._is_wanted = "agent/changed" not in opt_out
        self._asked: set[tuple[Path, str]] = set()
        self._asking = asyncio.Lock()
        self._listener = self._watch.listen(self._tell, lambda: tuple(folders))

    @property
    def workspaces(self) -> tuple[Path, ...]:
        """The folders whose own agents this client may have."""
        return tuple(self._folders)

    async def begun(self) -> None:
        """Wait until every later change will be told."""
        await self._watch.begun(self._listener)

    async def ask_for_trust(self) -> None:
        """Ask for every workspace that has agents and is not trusted as it is now, one at a time.

        What is trusted then is what was there when it was asked for.
        """
        async with self._asking:
            for each in await asyncio.to_thread(self._catalogue.untrusted, self.workspaces):
                if (each.folder, each.digest) not in self._asked:
                    self._asked.add((each.folder, each.digest))
                    await self._ask(each)

    def leave(self) -> None:
        """Tell nothing more; safe to call twice."""
        self._watch.leave(self._listener)

    def _tell(self, change: AgentChange) -> None:
        if self._is_wanted:
            params = AgentChangedNotification(name=change.name or None, change=change.change)
            self._notify("agent/changed", params)

    async def _ask(self, workspace: Workspace) -> None:
        trust = self._catalogue.trust
        before = await asyncio.to_thread(trust.of, workspace.folder)
        params = RequestTrustParams(
            path=str(workspace.folder), files=list(workspace.files), changed=before is not None
        )
        try:
            if await self._person.request_trust(params, TRUST_SECONDS):
                await asyncio.to_thread(trust.give, workspace.folder, workspace.digest)
        except TimeoutError:
            logger.info("nobody said whether a workspace's agents are trusted")
        except (ConfigurationError, OSError) as error:
            logger.warning("the workspace %s could not be trusted: %s", workspace.folder, error)
