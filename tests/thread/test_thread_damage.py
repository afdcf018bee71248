"""Damaged files: whatever can be read is kept, nothing that cannot be is overwritten."""

from __future__ import annotations

import errno
import gc
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.disk import Disk
from support.process import patience_with
from treadle.thread.loaded import LoadReport
from treadle.thread.message import Message, ToolCall, Usage, decode_line, encode_line
from treadle.thread.reading import Reading
from treadle.thread.records import decode_record
from treadle.thread.replay import load, skim
from treadle.thread.thread import Thread

HI = b'{"role":"user","content":"hi"}'


@pytest.fixture
async def sound(tmp_path: Path) -> bytes:
    """The bytes of a thread with two turns."""
    path = tmp_path / "sound.jsonl"
    thread = Thread.open(path, agent="inbox", instance="é")
    for number in range(2):
        thread.start_turn()
        await thread.append(Message("user", f"read {number} \u2028 é"))
        await thread.append(
            Message("assistant", "", [ToolCall(f"c{number}", "read", {"path": "a"})])
        )
        await thread.append(Message("tool", "x\n\ty", tool_call_id=f"c{number}"))
        await thread.append(Message("assistant", "done", usage=Usage(3, 4)))
        await thread.end_turn("end_turn", Usage(3, 4), 2)
    thread.close()
    return path.read_bytes()


@pytest.fixture
def instant_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush nothing, where a thousand threads are opened and no power fails."""
    monkeypatch.setattr("treadle.thread.tail.sync", lambda descriptor: None)
    monkeypatch.setattr("treadle.thread.tail.sync_folder", lambda folder: None)
    monkeypatch.setattr("treadle.thread.line_writer.sync_folder", lambda folder: None)


@pytest.mark.usefixtures("instant_disk")
def test_a_file_cut_anywhere_keeps_every_whole_line_and_every_byte(
    sound: bytes, tmp_path: Path
) -> None:
    path, damaged = tmp_path / "cut.jsonl", tmp_path / "cut.damaged"
    for size in range(len(sound) + 1):
        path.write_bytes(sound[:size])
        damaged.unlink(missing_ok=True)
        *whole, tail = sound[:size].split(b"\n")
        is_whole = tail == b"" or sound[size : size + 1] == b"\n"
        whole += [tail] if is_whole else []

        read_only = load(path)
        assert path.read_bytes() == sound[:size]
        assert not damaged.exists()
        thread = Thread.open(path)
        thread.close()

        expected = [decode_line(line) for line in whole if line.startswith(b'{"role"')]
        assert read_only.messages == expected
        assert thread.messages[: len(expected)] == expected
        assert read_only.report.torn_bytes == thread.report.torn_bytes
        assert thread.report.torn_bytes == (0 if is_whole else len(tail))
        assert (damaged.read_bytes() if damaged.exists() else b"") == (b"" if is_whole else tail)
        assert path.read_bytes().startswith(b"".join(line + b"\n" for line in whole if line))
        assert load(path).messages == thread.messages
        assert load(path).report == LoadReport()


@pytest.mark.usefixtures("instant_disk")
def test_a_flipped_byte_costs_at_most_the_lines_it_touches(sound: bytes, tmp_path: Path) -> None:
    path, dice = tmp_path / "flip.jsonl", random.Random(7)
    for _ in range(200):
        place = dice.randrange(len(sound))
        flipped = bytearray(sound)
        flipped[place] ^= dice.randrange(1, 256)
        path.write_bytes(flipped)
        path.with_suffix(".damaged").unlink(missing_ok=True)

        thread = Thread.open(path)
        thread.close()

        start = sound.rfind(b"\n", 0, place) + 1
        end = sound.find(b"\n", place + 1)
        after = sound[end + 1 :] if end >= 0 else b""
        untouched = [
            decode_line(line)
            for line in (sound[:start] + after).split(b"\n")
            if line.startswith(b'{"role"')
        ]
        assert [message for message in untouched if message not in thread.messages] == []
        # Nothing but a torn tail was taken out of the file.
        kept = bytes(flipped[: len(flipped) - thread.report.torn_bytes])
        assert path.read_bytes().startswith(kept)
        assert load(path).messages == thread.messages


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b'{"role":"user","content":"\xff"}',
        b'{"role":"robot"}',
        b'{"role":"user","content":5}',
        b'{"turn":{"number":"one","event":"start"}}',
        b'{"turn":{"number":99999999999999999999,"event":"start"}}',
        b"42",
        b"[]",
        b"\x00" * 40,
        b"[" * 100_000,
        b'{"role":"user","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"role":"user","content":[{"n":' + b"9" * 5000 + b"}]}",
        b'{"role":"user","content":"a\x00"}',
    ],
    ids=lambda bad: repr(bad[:30]),
)
def test_a_bad_line_in_the_middle_is_set_aside_once_and_stays(bad: bytes, tmp_path: Path) -> None:
    path, damaged = tmp_path / "a.jsonl", tmp_path / "a.damaged"
    content = HI + b"\n" + bad + b"\n" + HI + b"\n"
    path.write_bytes(content)
    read_only = load(path)
    thread = Thread.open(path)
    thread.close()
    again = Thread.open(path)
    again.close()

    assert thread.messages == again.messages == [Message("user", "hi")] * 2
    assert read_only.report == thread.report == LoadReport(quarantined_lines=1)
    assert again.report == load(path).report == LoadReport()
    assert damaged.read_bytes() == bad + b"\n"
    assert path.read_bytes().startswith(content)
    rest = path.read_bytes().removeprefix(content).splitlines()
    assert [decode_record(line).set_aside is not None for line in rest] == [True]


def test_keys_and_records_of_a_newer_version_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"thread":{"version":1,"forked_from":["a",3]},"seal":1}\n'
        b'{"compacted":{"id":"c1","through":4}}\n'
        b'{"turn":{"number":2,"event":"pause","mood":"calm"}}\n' + HI + b"\n"
    )
    loaded = load(path)

    assert loaded.messages == [Message("user", "hi")]
    assert (loaded.turns, loaded.unfinished, loaded.report) == (2, None, LoadReport())


@pytest.mark.parametrize(
    "content",
    [
        HI + b"\r\n" + HI + b"\r\n",
        b"\xef\xbb\xbf" + HI + b"\n\n  \n" + HI,
        b'{"content": "hi", "role": "user"}\n' + HI,
    ],
    ids=["windows", "byte order mark and blank lines", "another writer"],
)
async def test_a_plain_file_of_messages_loads_and_goes_on(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    thread = Thread.open(path)
    said = await thread.append(Message("user", "more"))
    thread.close()

    assert thread.messages == load(path).messages == [Message("user", "hi")] * 2 + [said]
    assert (load(path).header, load(path).report) == (None, LoadReport())
    whole = content if content.endswith(b"\n") else content + b"\n"
    assert path.read_bytes() == whole + encode_line(said) + b"\n"


def test_what_is_set_aside_twice_lies_on_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for torn in (b'{"role":"us', b"\xff\x00"):
        with path.open("ab") as file:
            file.write(torn)
        thread = Thread.open(path)
        thread.close()
        assert (thread.created, thread.report.torn_bytes) == (False, len(torn))

    assert (tmp_path / "a.damaged").read_bytes() == b'{"role":"us\n\xff\x00'
    assert (tmp_path / "a.damaged").stat().st_mode & 0o777 == 0o600


async def test_a_torn_tail_that_cannot_be_copied_is_not_cut_until_it_can(
    tmp_path: Path, disk: Disk
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HI + b'\n{"role":"us')
    disk.only = "a.damaged"
    with disk.failing(errno.ENOSPC):
        thread = Thread.open(path)
        said = await thread.append(Message("user", "on"))

        assert thread.storage == "degraded"
        assert path.read_bytes() == HI + b'\n{"role":"us'
    more = await thread.append(Message("user", "and on"))
    assert thread.storage == "ok"
    assert (tmp_path / "a.damaged").read_bytes() == b'{"role":"us'
    assert load(path).messages == thread.messages == [decode_line(HI), said, more]
    thread.close()


def test_a_large_thread_loads_with_the_collector_on_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes((HI + b"\n") * 50_000)

    assert len(load(path).messages) == 50_000
    assert gc.isenabled()


# Says messages and tells each once it is said, until it is killed.
WRITER = """
import asyncio, sys
from pathlib import Path
from treadle.thread.message import Message
from treadle.thread.thread import Thread

async def main():
    thread = Thread.open(Path(sys.argv[1]))
    thread.start_turn()
    number = 0
    while True:
        await thread.append(Message("user", f"{number} " + "x" * 300))
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


def test_a_killed_writer_loses_nothing_that_it_had_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with (
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
        ) as writer,
        patience_with(writer),
    ):
        assert writer.stdout is not None
        acknowledged = [next(writer.stdout) for _ in range(200)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += writer.stdout.read().splitlines()

    thread = Thread.open(path)
    thread.close()

    numbers = [int(message.text.split()[0]) for message in thread.messages]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= len(acknowledged) >= 200
    assert thread.report.interrupted_turn == 1


@pytest.mark.usefixtures("instant_disk")
def test_a_message_has_the_same_ordinal_whoever_looks_at_a_damaged_file(
    sound: bytes, tmp_path: Path
) -> None:
    path, dice = tmp_path / "joined.jsonl", random.Random(7)
    start = sound.index(b'{"role"', sound.index(b'"number":2'))
    for _ in range(100):
        # A line end that is lost makes one bad line of two; what was hidden is told by a record.
        joined = bytearray(sound)
        for _ in range(dice.choice([1, 2])):
            place = dice.choice([at for at in range(start) if joined[at : at + 1] == b"\n"])
            joined[place] = ord(" ")
        path.write_bytes(joined)

        loaded = load(path)
        told = {
            offset: ordinal for ordinal, offset in zip(loaded.ordinals, loaded.offsets, strict=True)
        }
        skimmed = skim(path)
        assert told.items() <= dict(zip(skimmed.offsets, skimmed.ordinals, strict=True)).items()
        page = Reading.of_file(path).page(0, 100)
        assert [one.ordinal for one in page.messages] == list(loaded.ordinals)
