"""The log's file: shared, bounded and private, and no trouble where it cannot be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemon import daemon, serving_after
from support.process import posix_only
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.folders import LOG_VARIABLE
from treadle.server.log.file import FILE_NAME, LogFile

# What a file may have in the test of a full disk; more than what standard error says there.
ROOM_BYTES = 8192

# Writes numbered lines as a daemon's log thread does, several in one write.
WRITER = """
import sys
from pathlib import Path
from treadle.server.log.file import LogFile
folder, name, lines, part_bytes, older_parts = sys.argv[1:]
log = LogFile(Path(folder), part_bytes=int(part_bytes), older_parts=int(older_parts))
for start in range(0, int(lines), 5):
    log.write(b"".join(b"%s %d\\n" % (name.encode(), start + each) for each in range(5)))
"""


def write_at_once(folder: Path, lines: int, part_bytes: int, older_parts: int) -> None:
    """Have four processes write to one log at the same time."""
    rest = (str(lines), str(part_bytes), str(older_parts))
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name, *rest])
        for name in "abcd"
    ]
    assert [writer.wait(PATIENCE_SECONDS) for writer in writers] == [0, 0, 0, 0]


def test_processes_that_share_a_log_lose_no_line_while_it_is_rotated(tmp_path: Path) -> None:
    write_at_once(tmp_path, lines=1000, part_bytes=2000, older_parts=1000)
    parts = sorted(tmp_path.iterdir())
    assert len(parts) > 10  # so it was rotated, many times
    found = [line for part in parts for line in part.read_text().splitlines()]
    assert sorted(found) == sorted(f"{name} {number}" for name in "abcd" for number in range(1000))


def test_a_log_keeps_its_bound_whoever_writes(tmp_path: Path) -> None:
    write_at_once(tmp_path, lines=2000, part_bytes=1000, older_parts=3)
    names = sorted(part.name for part in tmp_path.iterdir())
    assert names == [FILE_NAME, f"{FILE_NAME}.1", f"{FILE_NAME}.2", f"{FILE_NAME}.3"]
    # A part may grow by what each process writes before it has looked again.
    assert sum(part.stat().st_size for part in tmp_path.iterdir()) < 4 * (1000 + 4 * 50)


def test_the_newest_part_is_number_one(tmp_path: Path) -> None:
    log = LogFile(tmp_path, part_bytes=1, older_parts=2)
    for line in (b"one\n", b"two\n", b"three\n", b"four\n"):
        log.write(line)
    assert {part.name: part.read_bytes() for part in tmp_path.iterdir()} == {
        FILE_NAME: b"four\n",
        f"{FILE_NAME}.1": b"three\n",
        f"{FILE_NAME}.2": b"two\n",
    }


def test_a_log_that_was_deleted_is_begun_anew(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs")
    log.write(b"one\n")
    (tmp_path / "logs" / FILE_NAME).unlink()
    (tmp_path / "logs").rmdir()
    log.write(b"two\n")
    assert (tmp_path / "logs" / FILE_NAME).read_bytes() == b"two\n"


def test_a_file_that_nobody_can_rotate_does_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / f"{FILE_NAME}.1").mkdir()  # in the way of the rename
    log = LogFile(tmp_path, part_bytes=10, older_parts=1)
    with pytest.raises(OSError, match="full"):
        for _ in range(100):
            log.write(b"a line\n")
    assert (tmp_path / FILE_NAME).stat().st_size < 20 + len("a line\n")


@posix_only
async def test_the_log_is_the_persons_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with daemon(env={LOG_VARIABLE: str(tmp_path / "new" / "logs")}) as client:
            assert await client.end() == 0
    finally:
        os.umask(before)
    log = tmp_path / "new" / "logs" / FILE_NAME
    modes = [path.stat().st_mode & 0o777 for path in (log.parent.parent, log.parent, log)]
    assert [oct(mode) for mode in modes] == ["0o700", "0o700", "0o600"]


async def test_a_folder_that_cannot_be_costs_one_warning_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    with (tmp_path / "stderr").open("wb") as stderr:
        env = {LOG_VARIABLE: str(tmp_path / "in the way")}
        async with daemon(env=env, stderr=stderr) as client:
            for _ in range(3):
                await client.still_answers()
            assert await client.end() == 0
    said = (tmp_path / "stderr").read_text()
    assert re.fullmatch(r"treadle: WARNING the log in .*in the way cannot be written: .*\n", said)


@posix_only
async def test_a_full_disk_costs_one_warning_and_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "logs" / FILE_NAME
    log.parent.mkdir()
    log.write_bytes(b"\n" * ROOM_BYTES)
    program = serving_after(
        tmp_path,
        "import resource, signal",
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({ROOM_BYTES}, {ROOM_BYTES}))",
    )
    stderr = tmp_path / "stderr"
    with stderr.open("wb") as out:
        env = {LOG_VARIABLE: str(log.parent)}
        async with daemon(env=env, program=program, stderr=out) as client:
            await until_seen(lambda: stderr.read_text() != "")
            await client.still_answers()
            assert await client.end() == 0
    said = stderr.read_text()
    assert re.fullmatch(r"treadle: WARNING .* cannot be written: File too large\n", said)
    assert log.stat().st_size == ROOM_BYTES


def test_half_a_line_of_a_disk_that_became_full_swallows_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(tmp_path)
    room = [4, -1]  # the disk takes four bytes, and then no more
    write = os.write

    def takes(descriptor: int, data: bytes) -> int:
        if not room:
            return write(descriptor, data)
        if (size := room.pop(0)) < 0:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:size])

    monkeypatch.setattr(os, "write", takes)
    with pytest.raises(OSError, match="No space"):
        log.write(b"first\n")
    log.write(b"second\n")
    assert (tmp_path / FILE_NAME).read_bytes() == b"firs\nsecond\n"
