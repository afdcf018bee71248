"""Messages through a child's pipes, a line each; ours, because the SDK's is slow and deaf.

Owns framing, back-pressure in both ways, what is noise, and that the end of the child is seen at
once, whoever else holds its pipe. Refuses to know what a message says: whoever uses it reads and
encodes them. The child is another's: nothing here starts or stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Generic, Self, TypeVar

from treadle.mcp.lost import Lost
from treadle.process.child import Child

# A result of this size has filled a model's window many times over.
LINE_BYTES = 64 * 1024 * 1024

# What a Linux pipe holds.
PIECE_BYTES = 64 * 1024

# Of the noise in one piece so much is passed on: what a person reads of it is less.
NOISE_BYTES = 8 * 1024

# So much noise in a row is read at full speed, and what comes then with pauses: somebody's log
# must not take a whole processor. An answer behind it comes all the same.
FREE_NOISE_BYTES = 1024 * 1024
NOISE_PAUSE_SECONDS = 0.005

# What an ended child wrote last is in the pipe already; only a grandchild keeps that pipe open,
# and may write to it for ever.
LAST_WORDS_SECONDS = 0.05
MOST_LAST_WORDS_SECONDS = 1.0

# A child that ends closes its output a moment before it is gone; then its exit code says more.
EXIT_SECONDS = 0.2

MessageT = TypeVar("MessageT")


class LineTooLong(Exception):
    """A line has no end within the bound."""


class Lines:
    """Cuts bytes into lines, at 0x0A alone and each byte looked at once."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def take(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._buffer += piece

    def next(self) -> bytes | None:
        """Return the next whole line without its end; None where there is none yet.

        Raises:
            LineTooLong: there never will be.
        """
        end = self._buffer.find(b"\n", self._searched)
        if max(end, len(self._buffer) if end < 0 else 0) > LINE_BYTES:
            raise LineTooLong
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(memoryview(self._buffer)[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def rest(self) -> bytes:
        """Return what is left without an end."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


class Incoming(Generic[MessageT]):
    """The messages that a child sends, as the SDK's streams give them.

    Args:
        child: it runs.
        read: makes a message of a line; None where it is none. Contract: never raises.
        noise: told what is no message. Contract: neither raises nor blocks.
        lost: told when nothing more comes.
    """

    def __init__(
        self,
        child: Child,
        read: Callable[[bytes], MessageT | None],
        noise: Callable[[bytes], None],
        lost: Lost,
    ) -> None:
        self.noise_lines = 0
        self._child = child
        self._read = read
        self._tell_noise = noise
        self._lost = lost
        self._lines = Lines()
        self._noise = bytearray()
        self._noise_in_a_row = 0
        self._ends_at: float | None = None
        self._patience: asyncio.Timeout | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageT:
        while not self._lost.why:
            if (message := self._next()) is not None:
                # Whoever handles the last message comes first: nothing piles up in a flood.
                await asyncio.sleep(0)
                return message
            await self._pass_noise()
            if piece := await self._piece():
                self._lines.take(piece)
                self._noise_in_a_row += len(piece)
            elif (message := self._last()) is not None:
                return message
            else:
                await self._end()
        raise StopAsyncIteration

    async def watch(self) -> None:
        """See the child's end, for as long as it takes; cancelled by whoever reads no more."""
        await self._child.wait()
        self._ends_at = _now() + MOST_LAST_WORDS_SECONDS
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(_now() + LAST_WORDS_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    async def receive(self) -> MessageT:
        """Return the next message; the SDK's other way to ask for one."""
        return await self.__anext__()

    async def aclose(self) -> None:
        """Nothing: the pipe is the child's."""

    def _next(self) -> MessageT | None:
        """Return the next message that is here already, having set noise aside."""
        try:
            while (line := self._lines.next()) is not None:
                if (message := self._message(line)) is not None:
                    return message
        except LineTooLong:
            bound = LINE_BYTES // (1024 * 1024)
            self._lost.because(f"the server sent a line of more than {bound} MiB")
        return None

    def _message(self, line: bytes) -> MessageT | None:
        line = line.strip()
        if not line:
            return None
        # Most noise costs no more than this look.
        message = self._read(line) if line.startswith(b"{") else None
        if message is None:
            self.noise_lines += 1
            self._noise += line[: max(0, NOISE_BYTES - len(self._noise))]
            self._noise += b"\n"[: max(0, NOISE_BYTES - len(self._noise))]
        else:
            self._noise_in_a_row = 0
        return message

    def _last(self) -> MessageT | None:
        """Return the message that the end cut its line end off, if there is one."""
        return self._message(self._lines.rest())

    async def _pass_noise(self) -> None:
        if not self._noise:
            return
        self._tell_noise(bytes(self._noise))
        self._noise.clear()
        if self._noise_in_a_row > FREE_NOISE_BYTES:
            await asyncio.sleep(NOISE_PAUSE_SECONDS)

    async def _piece(self) -> bytes:
        """Return the next bytes; none where no more will come."""
        if self._ends_at is not None and _now() > self._ends_at:
            return b""
        within = None if self._ends_at is None else LAST_WORDS_SECONDS
        try:
            async with asyncio.timeout(within) as self._patience:
                return await self._child.stdout.read(PIECE_BYTES)
        except (TimeoutError, OSError):
            return b""
        finally:
            self._patience = None

    async def _end(self) -> None:
        await self._pass_noise()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await self._child.wait()
        code = self._child.exit_code
        self._lost.because(
            "the server closed its output"
            if code is None
            else f"the server ended with exit code {code}"
        )


class Outgoing(Generic[MessageT]):
    """The messages for a child, as the SDK's streams take them.

    Args:
        child: it runs.
        encode: makes a line of a message, without its end.
        lost: told when the child takes no more.
    """

    def __init__(self, child: Child, encode: Callable[[MessageT], bytes], lost: Lost) -> None:
        self._stdin = child.stdin
        self._encode = encode
        self._lost = lost

    async def send(self, message: MessageT) -> None:
        """Send a message; wait first, where the child has not taken the ones before.

        Raises:
            anyio.BrokenResourceError: the child takes nothing any more.
        """
        from anyio import BrokenResourceError

        try:
            # Written only where there is room: who gives up waiting has sent nothing.
            await self._stdin.drain()
            if self._stdin.is_closing():
                raise ConnectionResetError
            self._stdin.write(self._encode(message) + b"\n")
            await self._stdin.drain()
        except OSError:
            self._lose()
            raise BrokenResourceError from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing: the pipe is the child's, and its end is a rung of the ladder that stops it."""

    def _lose(self) -> None:
        """Leave it to the end of the output to say why, which mostly comes at the same moment."""
        asyncio.get_running_loop().call_later(
            EXIT_SECONDS, self._lost.because, "the server takes no more input"
        )


@contextlib.asynccontextmanager
async def open_pipes(
    child: Child,
    *,
    read: Callable[[bytes], MessageT | None],
    encode: Callable[[MessageT], bytes],
    noise: Callable[[bytes], None],
    lost: Lost,
) -> AsyncIterator[tuple[Incoming[MessageT], Outgoing[MessageT]]]:
    """Speak through a child's pipes for as long as the block takes; see the two classes."""
    incoming = Incoming(child, read, noise, lost)
    watching = asyncio.create_task(incoming.watch())
    try:
        yield incoming, Outgoing(child, encode, lost)
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def _now() -> float:
    return asyncio.get_running_loop().time()
