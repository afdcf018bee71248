"""The writer: everything in order, never blocking, and a client that is slow or gone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.waiting import PATIENCE_SECONDS, Waitable, until_threads_end
from treadle.server.wire import writer as writer_module
from treadle.server.wire.writer import HIGH_WATER_BYTES, LOW_WATER_BYTES, Writer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs descriptors that poll")


class Output(Waitable):
    """A pipe with a writer at its start, and what the writer told."""

    def __init__(self, *, is_blocking: bool = True) -> None:
        super().__init__()
        self.read_end, self.fd = os.pipe()
        os.set_blocking(self.fd, is_blocking)
        self.lows = 0
        self.breaks = 0
        self.writer = Writer(
            self.fd, asyncio.get_running_loop(), on_low=self._on_low, on_broken=self._on_broken
        )

    def read(self, size_bytes: int) -> bytes:
        """Read exactly so much, for as long as it takes."""
        parts = bytearray()
        while len(parts) < size_bytes and (part := os.read(self.read_end, size_bytes - len(parts))):
            parts += part
        return bytes(parts)

    def hang_up(self) -> None:
        os.close(self.read_end)
        self.read_end = -1

    async def close(self) -> None:
        self.writer.close()
        if self.read_end != -1:
            self.hang_up()
        await until_threads_end("treadle-writer")
        os.close(self.fd)

    def _on_low(self) -> None:
        self.lows += 1
        self.changed()

    def _on_broken(self) -> None:
        self.breaks += 1
        self.changed()


@pytest.fixture(params=[True, False], ids=["blocking", "non-blocking"])
async def output(request: pytest.FixtureRequest) -> AsyncIterator[Output]:
    output = Output(is_blocking=request.param)
    yield output
    await output.close()


async def test_what_is_written_arrives_in_order(output: Output) -> None:
    frames = [b"%06d " % number * (number % 40 + 1) for number in range(3_000)]
    everything = b"".join(frames)
    reading = asyncio.create_task(asyncio.to_thread(output.read, len(everything)))
    for number, frame in enumerate(frames):
        output.writer.write(frame)
        if number % 100 == 0:
            await asyncio.sleep(0)
    assert await output.writer.drain(PATIENCE_SECONDS)
    assert await reading == everything
    assert output.writer.pending_bytes == 0


async def test_one_frame_of_many_times_a_pipe_arrives_whole(output: Output) -> None:
    frame = os.urandom(5 << 20)
    output.writer.write(frame)
    assert await asyncio.to_thread(output.read, len(frame)) == frame
    assert await output.writer.drain(PATIENCE_SECONDS)


async def test_frames_that_wait_are_joined_into_one_write(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write, gate = os.write, threading.Event()

    def counted(fd: int, data: bytes) -> int:
        if fd == output.fd:
            gate.wait(PATIENCE_SECONDS)
            sizes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(writer_module.os, "write", counted)
    for _ in range(1_000):
        output.writer.write(b"x" * 10)
    gate.set()
    assert await output.writer.drain(PATIENCE_SECONDS)
    assert sum(sizes) == 10_000
    assert len(sizes) <= 2


async def test_a_client_that_stops_reading_blocks_nobody_and_is_told_of_when_it_reads_on(
    output: Output,
) -> None:
    frame = b"x" * 10_000
    count = 2 * HIGH_WATER_BYTES // len(frame)
    started = time.monotonic()
    for _ in range(count):
        output.writer.write(frame)
    assert time.monotonic() - started < PATIENCE_SECONDS / 2
    assert output.writer.pending_bytes >= HIGH_WATER_BYTES
    assert not await output.writer.drain(0.05)
    assert output.lows == 0
    reading = asyncio.create_task(asyncio.to_thread(output.read, count * len(frame)))
    await output.until(lambda: output.lows == 1)
    assert output.writer.pending_bytes <= LOW_WATER_BYTES
    assert await output.writer.drain(PATIENCE_SECONDS)
    assert await reading == frame * count
    output.writer.write(b"a little more")
    assert await output.writer.drain(PATIENCE_SECONDS)
    assert output.lows == 1


async def test_a_client_that_went_away_is_told_of_once_and_writes_are_dropped(
    output: Output,
) -> None:
    output.hang_up()
    for _ in range(3):
        output.writer.write(b"x" * 100_000)
    await output.until(lambda: output.breaks == 1)
    output.writer.write(b"x")
    assert output.writer.pending_bytes == 0
    assert not await output.writer.drain(PATIENCE_SECONDS)
    assert output.breaks == 1


async def test_a_client_that_goes_away_while_it_is_written_to_ends_the_wait(
    output: Output,
) -> None:
    output.writer.write(b"x" * (1 << 20))
    draining = asyncio.create_task(output.writer.drain(PATIENCE_SECONDS))
    await asyncio.to_thread(output.read, 1_000)
    output.hang_up()
    assert not await draining
    await output.until(lambda: output.breaks == 1)


async def test_a_close_ends_the_thread_and_tells_nothing(output: Output) -> None:
    output.writer.write(b"x")
    assert await output.writer.drain(PATIENCE_SECONDS)
    output.writer.close()
    output.writer.write(b"y")
    output.hang_up()
    await output.close()
    output.fd = os.open(os.devnull, os.O_WRONLY)
    await asyncio.sleep(0)
    assert (output.lows, output.breaks) == (0, 0)


async def test_a_close_ends_a_drain_and_a_wait_for_a_full_pipe() -> None:
    output = Output(is_blocking=False)
    output.writer.write(b"x" * (1 << 20))
    draining = asyncio.create_task(output.writer.drain(PATIENCE_SECONDS))
    await asyncio.sleep(0)
    output.writer.close()
    assert not await draining
    await until_threads_end("treadle-writer")
    await output.close()


async def test_a_full_pipe_that_does_not_block_is_waited_for_without_spinning() -> None:
    output = Output(is_blocking=False)
    output.writer.write(b"x" * (1 << 20))
    used = time.process_time()
    await asyncio.to_thread(time.sleep, 0.2)
    assert time.process_time() - used < 0.1
    await output.close()


async def test_a_regular_file_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "out"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    writer = Writer(fd, asyncio.get_running_loop(), on_low=lambda: None, on_broken=lambda: None)
    writer.write(b"x" * 1_000_000)
    assert await writer.drain(PATIENCE_SECONDS)
    writer.close()
    assert path.read_bytes() == b"x" * 1_000_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
async def test_a_full_device_is_a_client_that_went_away() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    broken = asyncio.Event()
    writer = Writer(fd, asyncio.get_running_loop(), on_low=lambda: None, on_broken=broken.set)
    writer.write(b"x")
    await asyncio.wait_for(broken.wait(), PATIENCE_SECONDS)
    assert not await writer.drain(PATIENCE_SECONDS)


def test_a_process_ends_while_its_client_does_not_read() -> None:
    program = """
import asyncio, sys
from treadle.server.wire.writer import Writer
async def main():
    writer = Writer(1, asyncio.get_running_loop(), lambda: None, lambda: None)
    writer.write(b"x" * 10_000_000)
    drained = await writer.drain(0.1)
    writer.close()
    sys.stderr.write(f"drained: {drained}")
asyncio.run(main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        _, err = process.communicate()
    assert err == b"drained: False"
