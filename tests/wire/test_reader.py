"""The reader: frames of any kind of input, in order and bounded, and an end that is told once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.waiting import PATIENCE_SECONDS, Waitable, until_threads_end
from treadle.server.wire import reader as reader_module
from treadle.server.wire.framing import BadFrame, Frame, encode_frame
from treadle.server.wire.reader import Reader

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs descriptors that poll")


class Input(Waitable):
    """A pipe with a reader at its end, and what the reader told."""

    def __init__(self, fd: int | None = None) -> None:
        super().__init__()
        self.fd, self.write_end = os.pipe()
        self.source = self.fd if fd is None else fd
        self.batches: list[list[Frame]] = []
        self.ends = 0
        self.on_batch: Callable[[], None] = lambda: None
        self.reader = Reader(self.source, self._on_frames, self._on_end, asyncio.get_running_loop())

    @property
    def frames(self) -> list[Frame]:
        return [frame for batch in self.batches for frame in batch]

    def send(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def hang_up(self) -> None:
        os.close(self.write_end)
        self.write_end = -1

    async def close(self) -> None:
        self.reader.stop()
        await until_threads_end("treadle-reader")
        for fd in {self.fd, self.write_end} - {-1}:
            os.close(fd)

    def _on_frames(self, frames: list[Frame]) -> None:
        self.batches.append(frames)
        self.changed()
        self.on_batch()

    def _on_end(self) -> None:
        self.ends += 1
        self.changed()


@pytest.fixture
async def given() -> AsyncIterator[Input]:
    given = Input()
    yield given
    await given.close()


async def test_frames_come_in_order_and_then_the_end_once(given: Input) -> None:
    given.send(encode_frame(b"1") + b"noise\n" + encode_frame(b"2") + b"Content-Len")
    given.reader.start()
    await given.until(lambda: len(given.frames) == 3)
    given.send(b"gth: 1\r\n\r\n3")
    given.hang_up()
    await given.until(lambda: given.ends == 1)
    first, noise, *rest = given.frames
    assert (first, type(noise), rest) == (b"1", BadFrame, [b"2", b"3"])
    await until_threads_end("treadle-reader")
    assert given.ends == 1


async def test_one_read_is_one_batch(given: Input) -> None:
    given.send(encode_frame(b"{}") * 100)
    given.reader.start()
    await given.until(lambda: bool(given.batches))
    assert given.batches == [[b"{}"] * 100]


async def test_a_frame_that_the_input_ends_in_is_dropped(given: Input) -> None:
    given.send(b"Content-Length: 10\r\n\r\nhalf")
    given.hang_up()
    given.reader.start()
    await given.until(lambda: given.ends == 1)
    assert given.frames == []


async def test_a_paused_reader_delivers_nothing_until_it_is_resumed(given: Input) -> None:
    given.on_batch = given.reader.pause
    given.send(encode_frame(b"1"))
    given.reader.start()
    await given.until(lambda: given.frames == [b"1"])
    given.send(encode_frame(b"2"))
    given.hang_up()
    # Whatever the reader did by now, it may not have told; its thread has had its chance.
    for _ in range(20):
        await asyncio.to_thread(time.sleep, 0)
    assert (given.frames, given.ends) == ([b"1"], 0)
    given.on_batch = lambda: None
    given.reader.resume()
    await given.until(lambda: given.ends == 1)
    assert given.frames == [b"1", b"2"]


async def test_a_loop_that_is_busy_is_not_flooded(
    given: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MAX_UNDELIVERED_BYTES", 100_000)
    os.set_blocking(given.write_end, False)
    frame = encode_frame(b"x" * 10_000)
    given.reader.start()
    sent, idle_since = 0, time.monotonic()
    # The loop is blocked here, so nothing is taken: the pipe must stay full in the end.
    while time.monotonic() - idle_since < 0.3:
        try:
            sent += os.write(given.write_end, frame[sent % len(frame) :])
            idle_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop is meant to be blocked
        assert sent < 100_000 + reader_module.READ_BYTES + 2 * 65_536
    os.set_blocking(given.write_end, True)
    await asyncio.to_thread(given.send, frame[sent % len(frame) :])
    given.hang_up()
    await given.until(lambda: given.ends == 1)
    assert given.frames == [b"x" * 10_000] * (sent // len(frame) + 1)


async def test_nothing_is_told_after_a_stop_and_the_thread_ends(given: Input) -> None:
    given.reader.start()
    given.reader.stop()
    await until_threads_end("treadle-reader")
    given.send(encode_frame(b"1"))
    given.hang_up()
    await asyncio.sleep(0)
    assert (given.batches, given.ends) == ([], 0)


async def test_a_stop_while_paused_ends_the_thread(given: Input) -> None:
    given.reader.pause()
    given.reader.start()
    given.reader.stop()
    await until_threads_end("treadle-reader")


async def test_a_handler_that_raises_does_not_lose_the_end(given: Input) -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))

    def fail() -> None:
        raise RuntimeError("a handler's fault")

    given.on_batch = fail
    given.send(encode_frame(b"1"))
    given.hang_up()
    given.reader.start()
    await given.until(lambda: given.ends == 1)
    assert (given.frames, len(problems)) == ([b"1"], 1)


async def test_a_pipe_that_does_not_block_is_waited_for_without_spinning(given: Input) -> None:
    os.set_blocking(given.fd, False)
    given.reader.start()
    used = time.process_time()
    await asyncio.to_thread(time.sleep, 0.2)
    assert time.process_time() - used < 0.1
    for number in range(3):
        given.send(encode_frame(b"%d" % number))
        await given.until(lambda: len(given.frames) == number + 1)  # noqa: B023 - awaited here
    given.hang_up()
    await given.until(lambda: given.ends == 1)
    assert given.frames == [b"0", b"1", b"2"]


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "in"
    bodies = [b"%d" % number * 50 for number in range(5_000)]
    path.write_bytes(b"".join(map(encode_frame, bodies)))
    fd = os.open(path, os.O_RDONLY)
    given = Input(fd)
    given.reader.start()
    await given.until(lambda: given.ends == 1)
    await given.close()
    os.close(fd)
    assert given.frames == bodies


async def test_a_terminal_that_hangs_up_is_an_end() -> None:
    import pty
    import tty

    master, slave = pty.openpty()
    tty.setraw(slave)
    given = Input(slave)
    given.reader.start()
    os.write(master, encode_frame(b"typed"))
    await given.until(lambda: given.frames == [b"typed"])
    os.close(master)
    await given.until(lambda: given.ends == 1)
    await given.close()
    os.close(slave)


@pytest.mark.parametrize("fd", [os.devnull, "closed"])
async def test_an_input_that_is_over_at_once_is_an_end(fd: str) -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    if fd == "closed":
        os.close(descriptor)
    given = Input(descriptor if fd != "closed" else 987_654)
    given.reader.start()
    await given.until(lambda: given.ends == 1)
    await given.close()
    if fd != "closed":
        os.close(descriptor)
    assert given.frames == []


def test_a_process_ends_while_its_reader_waits_for_a_silent_client() -> None:
    program = """
import asyncio
from treadle.server.wire.reader import Reader
async def main():
    got = asyncio.Event()
    Reader(0, lambda frames: got.set(), lambda: None, asyncio.get_running_loop()).start()
    await got.wait()
asyncio.run(main())
print("ended")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(encode_frame(b"{}"))
    process.stdin.flush()
    try:
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        out, err = process.communicate()
    assert (out, err) == (b"ended\n", b"")
