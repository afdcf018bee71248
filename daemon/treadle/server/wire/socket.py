"""A client at the other end of a socket, carried by the event loop without threads of its own.

Owns how much of one client is taken in a step of the loop, so that one that sends thousands of
frames at once holds up nobody else, and that nobody is heard who is not let in.
Refuses to know what a frame says, and by what somebody is let in.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, cast

from treadle.server.wire.carrier import Told
from treadle.server.wire.framing import Frame, FrameParser
from treadle.server.wire.writer import HIGH_WATER_BYTES, LOW_WATER_BYTES

# Frames of one client that are taken in one step of the loop: each may begin a request, and a
# request's first step costs some tenths of a millisecond.
FRAMES_A_STEP = 16

# Whoever has to prove something first has this long to do so, and a line as long as this.
PROOF_SECONDS = 5.0
PROOF_BYTES = 256

IsProof: TypeAlias = Callable[[bytes], bool]
"""Whether a client's first line, with its end, lets it in. Contract: must not raise or block."""

OnIn: TypeAlias = Callable[["SocketCarrier"], bool]
"""Told of a client that may be heard; False turns it away. Contract: must not raise or block."""


class SocketCarrier(asyncio.Protocol):
    """Carries frames over one connected stream socket; see `carrier.Carrier`.

    Args:
        on_in: told once it may be heard, which sets `told`.
        is_proof: what its first line has to be; None where the socket itself keeps others out.

    Contract: the loop calls the methods of `asyncio.Protocol`, its owner those of `Carrier`.
    """

    told: Told

    def __init__(self, on_in: OnIn, is_proof: IsProof | None = None) -> None:
        self._on_in = on_in
        self._is_proof = is_proof
        self._proof = b""
        self._late: asyncio.TimerHandle | None = None
        self._is_in = False
        self._parser = FrameParser()
        self._frames: deque[Frame] = deque()
        self._transport: asyncio.Transport | None = None
        self._delivery: asyncio.Handle | None = None
        self._drains: list[asyncio.Future[None]] = []
        self._is_paused = True  # until it is started
        self._is_ended = False
        self._is_stopped = False
        self._is_gone = False

    # Carrier

    @property
    def pending_bytes(self) -> int:
        """Bytes that are not written yet."""
        if self._transport is None or self._is_gone:
            return 0
        return self._transport.get_write_buffer_size()

    @property
    def socket(self) -> socket.socket:
        """The socket; to be asked, never used."""
        assert self._transport is not None
        return cast("socket.socket", self._transport.get_extra_info("socket"))

    def start(self) -> None:
        """Begin to read."""
        self.resume()

    def write(self, frame: bytes) -> None:
        """Queue a frame; dropped when the client is gone."""
        if self._transport is not None and not self._is_gone and frame:
            self._transport.write(frame)

    def pause(self) -> None:
        """Deliver nothing from now on."""
        self._is_paused = True
        self._take_no_more()

    def resume(self) -> None:
        """Go on, first with what had come before the pause."""
        self._is_paused = False
        self._schedule()

    def stop(self) -> None:
        """Deliver nothing ever again."""
        self._is_stopped = True
        self._frames.clear()
        self._take_no_more()

    async def drain(self, timeout_seconds: float) -> bool:
        """Wait, within a bound, until everything is written; return whether it is."""
        if self.pending_bytes:
            drained = asyncio.get_running_loop().create_future()
            self._drains.append(drained)
            # From here on `resume_writing` tells that nothing waits at all.
            assert self._transport is not None
            self._transport.set_write_buffer_limits(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await drained
        return not self.pending_bytes and not self._is_gone

    def close(self) -> None:
        """Write nothing more; what still waits is lost."""
        self.stop()
        if self._transport is not None:
            if self.pending_bytes:
                self._transport.abort()
            else:
                self._transport.close()
        # A turn that goes on may still tell of its progress.
        self._is_gone = True
        self._settle_drains()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; nothing is read until `start`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        if self._is_proof is None:
            transport.pause_reading()
            self._let_in()
        else:
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(PROOF_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Cut bytes into frames."""
        if not self._is_in:
            data = self._prove(data)
        if data and not self._is_stopped:
            self._frames.extend(self._parser.feed(data))
            self._schedule()

    def eof_received(self) -> bool:
        """Note the end of the client's input; what it is still owed can be written."""
        self._is_ended = True
        self._schedule()
        return self._is_in

    def resume_writing(self) -> None:
        """Tell that the client reads again."""
        self._settle_drains()
        if not self._is_stopped:
            self.told.on_low()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell, once, that the client is gone."""
        self._is_gone = True
        self._settle_drains()
        if self._late is not None:
            self._late.cancel()
        if self._is_in and not self._is_stopped:
            self.told.on_broken()

    def _prove(self, data: bytes) -> bytes:
        """Take bytes of the first line; return what follows it, once that lets the client in."""
        assert self._transport is not None and self._is_proof is not None
        line, end, rest = (self._proof + data).partition(b"\n")
        if not end and len(line) <= PROOF_BYTES:
            self._proof = line
        elif end and self._is_proof(line + end):
            self._let_in()
            return rest
        else:
            self._transport.abort()
        return b""

    def _let_in(self) -> None:
        assert self._transport is not None
        if self._late is not None:
            self._late.cancel()
        self._is_in = self._on_in(self)
        if not self._is_in:
            # What `on_in` may have written is the last that is said.
            self._is_stopped = True
            self._transport.close()

    def _schedule(self) -> None:
        if not (self._is_paused or self._is_stopped) and self._delivery is None:
            self._delivery = asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Hand on some of what came; the rest has its turn after everybody else's."""
        self._delivery = None
        if self._is_paused or self._is_stopped:
            return
        frames = [self._frames.popleft() for _ in range(min(FRAMES_A_STEP, len(self._frames)))]
        try:
            if frames:
                self.told.on_frames(frames)
        finally:
            if self._frames:
                self._take_no_more()
                self._schedule()
            elif self._is_ended:
                self._end()
            elif not self._is_paused:
                self._take_more()

    def _end(self) -> None:
        if not (self._is_stopped or self._is_paused):
            self._is_stopped = True
            self.told.on_end()

    def _take_no_more(self) -> None:
        if self._transport is not None and not self._is_gone:
            self._transport.pause_reading()

    def _take_more(self) -> None:
        if self._transport is not None and not (self._is_gone or self._is_stopped):
            self._transport.resume_reading()

    def _settle_drains(self) -> None:
        drains, self._drains = self._drains, []
        for drained in drains:
            if not drained.done():
                drained.set_result(None)
