"""What carries frames between us and one client: the seam between a connection and its transport.

Refuses to know what a frame says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from treadle.server.wire.reader import OnEnd, OnFrames
from treadle.server.wire.writer import OnBroken, OnLow


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears of what comes.

    Args:
        on_frames: of the frames that came, in order.
        on_end: once, that nothing more comes.
        on_low: that what waits to be written has fallen to the low mark.
        on_broken: once, that the client can not be written to any more.

    Contract: all are called in the loop; they must not raise or block.
    """

    on_frames: OnFrames
    on_end: OnEnd
    on_low: OnLow
    on_broken: OnBroken


class Carrier(Protocol):
    """Frames to and from one client.

    Contract: every method is called in the loop, and none of them blocks it.
    """

    @property
    def pending_bytes(self) -> int:
        """Bytes that were given and are not yet taken by the system; 0 once the client is gone."""

    def start(self) -> None:
        """Begin to read."""

    def write(self, frame: bytes) -> None:
        """Queue a frame; dropped when the client is gone. There is no bound here."""

    def pause(self) -> None:
        """Deliver nothing from now on."""

    def resume(self) -> None:
        """Go on, first with what had come before the pause."""

    def stop(self) -> None:
        """Deliver nothing ever again."""

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait, within a bound, until everything is written; return whether it is."""

    def close(self) -> None:
        """Write nothing more; what still waits is lost."""
