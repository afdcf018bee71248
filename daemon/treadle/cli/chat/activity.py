"""What a chat does right now, and what its status line is told of that.

Owns the clock and the two ways to be busy. Refuses to know the protocol and what is said.
"""

from __future__ import annotations

import asyncio
import time

from treadle.cli.chat.items import Face, Status


class Activity:
    """What goes on in the session that we are in.

    Args:
        face: is told of each change.
        address: the session.
    """

    def __init__(self, face: Face, address: dict[str, str]) -> None:
        self.address = address
        self.model = ""
        self.cancelling = False
        self._face = face
        self._doing, self._since = "", 0.0
        self._prompts = 0  # how many of our own are in flight
        self._running = False  # what the session says of itself; a steer may have begun a turn
        self._armed = False
        self._asked = ""
        self._change: asyncio.Future[None] | None = None  # whoever waits for the next change

    @property
    def is_turn(self) -> bool:
        """Whether a turn runs or is about to."""
        return self._running or self._prompts > 0

    def now(self, doing: str) -> None:
        """Note what goes on; the clock runs from when nothing did."""
        if doing and not self._doing:
            self._since = time.monotonic()
        self._doing = doing
        self._tell()

    def rest(self) -> None:
        """Note that something has ended; while a turn runs, that still goes on."""
        if not self.is_turn:
            self.cancelling = False
            self.now("")

    def turn_runs(self, running: bool) -> None:
        """Note what the session says of itself."""
        self._running = running
        if running and not self._doing:
            self.now("waiting for the model")
        self.rest()

    def prompt_begins(self) -> None:
        """Note that a prompt was sent."""
        self._prompts += 1
        if not self._doing:
            self.now("waiting for the model")

    def prompt_ends(self) -> None:
        """Note that a prompt was answered."""
        self._prompts -= 1
        self.rest()

    def arm(self) -> bool:
        """Note an interrupt; return whether it is the second one in a row."""
        again, self._armed = self._armed, True
        if self.is_turn:
            self.cancelling = True
        self._tell()
        return again

    def disarm(self) -> None:
        """Let the next interrupt be a first one: the person goes on."""
        if self._armed:
            self._armed = False
            self._tell()

    def asks(self, hint: str) -> None:
        """Note what can be typed, because the person is asked; nothing once that is over."""
        self._asked = hint
        self._tell()

    def change(self) -> asyncio.Future[None]:
        """Return what is done with the next change from now on, however soon that comes."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        return self._change

    def _tell(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)
        self._face.status(
            Status(
                **self.address,
                model=self.model,
                doing="cancelling" if self.cancelling else self._doing,
                since=self._since,
                is_turn=self.is_turn,
                hint="Ctrl-C again leaves" if self._armed else self._asked,
            )
        )
