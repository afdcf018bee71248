"""What every session of a daemon shares: definitions, models, folders, the bound on turns."""

from __future__ import annotations

import asyncio
from functools import cached_property

from treadle.agents.catalogue import Catalogue
from treadle.folders import Folders
from treadle.models.provider import Models


class Services:
    """Made once per daemon; cheap to make, so that nothing of weight loads before it is used."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.catalogue = Catalogue(folders.config)
        self.models = Models(folders.cache)

    @cached_property
    def turn_slots(self) -> asyncio.Semaphore:
        """The turns that may run at once across all sessions.

        Fair between sessions: waiters are served in order, and a session waits for one at a time.
        The configuration's figure is read once, at the first turn.
        """
        return asyncio.Semaphore(self.catalogue.config().sessions.turns_in_flight)
