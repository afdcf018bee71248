"""What a handler knows of the client it works for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.runtime.outbox import Pair, Watcher
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Peer:
    """One client: the runtime it reaches, where it works, and how it hears of its sessions."""

    runtime: Runtime
    default_cwd: Path | None
    watcher: Watcher

    def session(self, pair: Pair) -> Session:
        """Return a session, made if need be, with this client watching it."""
        session = self.runtime.session(pair)
        session.outbox.watch(self.watcher)
        return session
