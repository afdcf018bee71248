"""The process's own descriptors: nothing but the wire can reach the client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors with sh")

# Far above what any of these programs takes; a hang becomes a failure.
PROGRAM_SECONDS = 20

TAKE = "from treadle.server.wire.stdio import take_stdio\nin_fd, out_fd = take_stdio()\n"

# Everything that is known to dirty a wire: Python, C, a child, and what speaks at exit.
NOISE = """
import atexit, os, subprocess, sys, warnings
print("noise before", end="")
{take}
print("noise")
sys.stdout.write("noise")
sys.__stdout__ and sys.__stdout__.write("noise")
os.write(1, b"noise")
subprocess.run([sys.executable, "-c", "print('noise')"])
os.system("echo noise")
warnings.warn("noise")
atexit.register(print, "noise at exit")
os.write(out_fd, b"wire")
"""


def run(program: str, *, closed: tuple[int, ...] = (), stdin: bytes = b"") -> tuple[bytes, bytes]:
    """Run a program, some of its descriptors closed at start; return its stdout and stderr."""
    closing = " ".join(f"{number}>&-" for number in closed)
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -c "$1" {closing}', sys.executable, program],
        input=stdin,
        capture_output=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout, ended.stderr


def test_nothing_that_prints_puts_a_byte_on_the_wire() -> None:
    out, err = run(NOISE.format(take=TAKE))
    assert out == b"wire"
    assert err.count(b"noise") == 9


def test_a_child_cannot_eat_what_the_client_sends() -> None:
    program = f"""
{TAKE}
import os, subprocess, sys
child = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"],
                       stdout=subprocess.PIPE)
os.write(out_fd, child.stdout + repr(sys.stdin.read()).encode() + os.read(in_fd, 100))
"""
    assert run(program, stdin=b"frame") == (b"0\n''frame", b"")


def test_the_private_descriptors_are_not_inherited() -> None:
    program = f"{TAKE}import os; os.write(out_fd, b'%d%d' % (*map(os.get_inheritable, wire),))"
    assert run(program.replace("in_fd, out_fd =", "wire = in_fd, out_fd =")) == (b"00", b"")


@pytest.mark.parametrize("closed", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_descriptors_closed_at_start_do_no_harm(closed: tuple[int, ...]) -> None:
    program = NOISE.format(take=TAKE) + "assert min(in_fd, out_fd) > 2\n"
    program += "os.write(out_fd, os.read(in_fd, 100))"
    out, err = run(program, closed=closed, stdin=b"frame")
    assert out == (b"" if 1 in closed else b"wire" if 0 in closed else b"wireframe")
    assert (b"noise" in err) == (2 not in closed)


def test_stderr_that_is_the_wire_itself_is_silenced() -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            TAKE + "import os; print('noise'); os.write(out_fd, b'wire'); 1 / 0",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, b"wire")


def test_regular_files_serve_as_well(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"frame\r\n")
    program = TAKE + "import os; print('noise'); os.write(out_fd, os.read(in_fd, 100))"
    with source.open("rb") as stdin, target.open("wb") as stdout:
        subprocess.run(
            [sys.executable, "-c", program],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_SECONDS,
            check=True,
        )
    assert target.read_bytes() == b"frame\r\n"


def test_a_descriptor_that_does_not_block_stays_as_the_parent_set_it() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    program = TAKE + "import os; os.write(out_fd, b'%d' % os.get_blocking(in_fd))"
    try:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            stdin=read_end,
            capture_output=True,
            timeout=PROGRAM_SECONDS,
            check=True,
        )
        assert (ended.stdout, os.get_blocking(read_end)) == (b"0", False)
    finally:
        os.close(read_end)
        os.close(write_end)
