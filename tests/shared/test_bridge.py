"""`treadle connect` between a client and a daemon that does what the test wants."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import posix_only
from support.shared import CONNECT, meeting
from support.waiting import PATIENCE_SECONDS
from treadle.cli.exit_codes import INTERRUPTED, UNREACHABLE
from treadle.rendezvous.environment import digests
from treadle.rendezvous.holding import Held, hold
from treadle.rendezvous.told import remove_told, write_told
from treadle.version import __version__

pytestmark = posix_only

# Whoever cannot send for so long has found every buffer on the way full.
STALLED_SECONDS = 1.0

# What sockets, pipes and the bridge hold together; one that buffers without bound takes all.
MOST_HELD_BYTES = 4 << 20
MUCH = bytes(range(256)) * (64 << 10)


class Standing:
    """A daemon's place that the test holds; its process is the test's own."""

    def __init__(self) -> None:
        self.address = meeting()
        held = hold(self.address.lock)
        assert held is not None
        self.held: Held = held
        write_told(self.address, version=__version__, environment=digests(), started_at=0)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.address.socket)
        self.listener.listen()
        self.listener.settimeout(PATIENCE_SECONDS)

    def accept(self) -> socket.socket:
        connected, _ = self.listener.accept()
        connected.settimeout(PATIENCE_SECONDS)
        return connected

    def leave(self) -> None:
        """Let go of everything."""
        self.listener.close()
        remove_told(self.address)
        self.held.release()


@pytest.fixture
def standing() -> Iterator[Standing]:
    there = Standing()
    yield there
    there.leave()


@contextlib.contextmanager
def bridge() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        CONNECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Wait for a bridge's end; return its code and what it told."""
    code = process.wait(PATIENCE_SECONDS)
    assert process.stderr is not None
    return code, process.stderr.read()


def test_what_the_daemon_says_after_the_client_s_last_word_still_arrives(
    standing: Standing,
) -> None:
    with bridge() as process, standing.accept() as daemon:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"a question\0\xff")
        process.stdin.close()
        with daemon.makefile("rb") as got:
            assert got.read() == b"a question\0\xff"
        daemon.sendall(b"an answer, late")
        daemon.close()
        assert process.stdout.read() == b"an answer, late"
        assert ended(process) == (0, b"")


def test_a_client_that_does_not_read_stops_the_daemon_and_gets_all_in_the_end(
    standing: Standing,
) -> None:
    with bridge() as process, standing.accept() as daemon:
        assert process.stdin is not None and process.stdout is not None
        sent = send_what_goes(daemon.fileno(), MUCH)
        assert 0 < sent < MOST_HELD_BYTES
        got = bytearray()
        while len(got) < sent:
            got += process.stdout.read(sent - len(got))
        assert bytes(got) == MUCH[:sent]


def test_a_daemon_that_does_not_read_stops_the_client_and_gets_all_in_the_end(
    standing: Standing,
) -> None:
    with bridge() as process, standing.accept() as daemon:
        assert process.stdin is not None
        sent = send_what_goes(process.stdin.fileno(), MUCH)
        assert 0 < sent < MOST_HELD_BYTES
        with daemon.makefile("rb") as got:
            assert got.read(sent) == MUCH[:sent]


def send_what_goes(descriptor: int, data: bytes) -> int:
    """Write until nothing goes any more; return how much went."""
    os.set_blocking(descriptor, False)
    sent = 0
    while sent < len(data) and select.select([], [descriptor], [], STALLED_SECONDS)[1]:
        sent += os.write(descriptor, data[sent : sent + 65536])
    os.set_blocking(descriptor, True)
    return sent


def test_a_client_that_hears_no_more_ends_it_also_while_nothing_is_said(
    standing: Standing,
) -> None:
    with bridge() as process, standing.accept() as daemon:
        assert process.stdout is not None
        process.stdout.close()
        assert ended(process) == (0, b"")
        assert daemon.recv(1) == b""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, INTERRUPTED)]
)
def test_a_signal_ends_it_without_a_word(standing: Standing, number: int, code: int) -> None:
    with bridge() as process, standing.accept() as daemon:
        daemon.sendall(b"hello")
        assert process.stdout is not None
        assert process.stdout.read(5) == b"hello"
        process.send_signal(number)
        assert ended(process) == (code, b"")


def test_a_daemon_that_lets_go_of_one_client_has_not_failed(standing: Standing) -> None:
    with bridge() as process, standing.accept() as daemon:
        daemon.close()
        assert ended(process) == (0, b"")


def test_a_daemon_that_is_killed_is_reported_also_to_a_client_that_waits_for_the_rest(
    standing: Standing,
) -> None:
    with bridge() as process, standing.accept() as daemon:
        assert process.stdin is not None
        process.stdin.close()
        assert daemon.recv(1) == b""
        standing.held.release()
        daemon.close()
        code, told = ended(process)
        assert (code, b"has ended; what was said is in its threads" in told) == (UNREACHABLE, True)


@pytest.mark.parametrize(("has_asked", "code"), [(True, 0), (False, UNREACHABLE)])
def test_a_daemon_that_ends_in_order_is_reported_to_whoever_goes_on(
    standing: Standing, has_asked: bool, code: int
) -> None:
    with bridge() as process, standing.accept() as daemon:
        assert process.stdin is not None
        if has_asked:
            process.stdin.close()
            assert daemon.recv(1) == b""
        standing.leave()
        daemon.close()
        assert ended(process)[0] == code


def test_it_loads_nothing_of_weight() -> None:
    heavy = "{'asyncio', 'argparse', 'subprocess', 'json', 'typing', 'pathlib', 'logging', 'ssl'}"
    loading = f"import sys, treadle.cli.connect; print({heavy} & set(sys.modules))"
    # Whatever the environment's own `.pth` files load is not ours.
    before = subprocess.run(
        [sys.executable, "-c", f"import sys; print({heavy} & set(sys.modules))"],
        capture_output=True,
        check=True,
    )
    after = subprocess.run([sys.executable, "-c", loading], capture_output=True, check=True)
    assert after.stdout == before.stdout


def test_words_that_are_no_options_are_a_usage_error() -> None:
    refused = subprocess.run(
        [*CONNECT, "--sideways"], capture_output=True, timeout=PATIENCE_SECONDS
    )
    assert (refused.returncode, b"--sideways" in refused.stderr) == (2, True)
    assert not Path(meeting().socket).exists()
