"""What a connection knows of the daemon that it belongs to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Transport: TypeAlias = Literal["stdio", "unix", "tcp", "memory"]


@dataclass(frozen=True, slots=True)
class Home:
    """A daemon, as its clients may ask for it.

    Args:
        transport: how its clients reach it.
        clients: tells how many they are now.
        idle_exit_seconds: tells after how long without clients and turns it ends; 0 for never.
        stop: ends it, softly (nobody who is just coming is turned away) or at once; None where
            it ends with its one client.
        began_at: seconds since the epoch.

    Contract: nothing here may raise or block.
    """

    transport: Transport
    clients: Callable[[], int]
    idle_exit_seconds: Callable[[], float] = lambda: 0.0
    stop: Callable[[bool], None] | None = None
    began_at: float = field(default_factory=time.time)

    @property
    def is_shared(self) -> bool:
        """Whether it goes on when a client leaves."""
        return self.stop is not None
