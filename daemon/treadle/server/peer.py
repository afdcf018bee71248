"""What a handler knows of the client it works for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakSet

from treadle.runtime.outbox import Outbox, Pair, Watcher
from treadle.runtime.runtime import Runtime
from treadle.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Peer:
    """One client: the runtime it reaches, where it works, and how it hears of its sessions."""

    runtime: Runtime
    default_cwd: Path | None
    watcher: Watcher
    # Weak, because a session that was closed and opened anew has another outbox.
    _watched: WeakSet[Outbox] = field(default_factory=WeakSet)

    def session(self, pair: Pair) -> Session:
        """Return a session, made if need be, with this client watching it."""
        session = self.runtime.session(pair)
        session.outbox.watch(self.watcher)
        self._watched.add(session.outbox)
        return session

    def leave(self) -> None:
        """Stop watching; the sessions go on without this client."""
        for outbox in tuple(self._watched):
            outbox.unwatch(self.watcher)
        self._watched.clear()
