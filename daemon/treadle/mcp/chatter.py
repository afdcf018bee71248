"""What a server writes beside its messages: the last of it, for people who ask why it failed.

Owns that it is bounded, cleaned and redacted. Refuses to know what is a message.
"""

from __future__ import annotations

from treadle.process.child import Child
from treadle.sanitise import clean
from treadle.secrets import known

# What is kept of the lines on standard output that are no messages.
_NOISE_BYTES = 2048


class Chatter:
    """What one life of a server leaves: its standard error, and noise on its standard output.

    Args:
        child: its process, which may have ended; None where there is none.
    """

    def __init__(self, child: Child | None = None) -> None:
        self._child = child
        self._noise = bytearray()

    def note(self, noise: bytes) -> None:
        """Keep the last of what came on standard output and is no message."""
        self._noise += noise
        del self._noise[:-_NOISE_BYTES]

    @property
    def tail(self) -> str:
        """The last of both, for people."""
        said = self._child.stderr_tail if self._child else ""
        noise = self._noise.decode("utf-8", "replace")
        whole = f"{said.rstrip()}\n[on standard output:]\n{noise}" if noise else said
        return clean(known().redact(whole)).strip()
