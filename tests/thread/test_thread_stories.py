"""Random lives of threads: what is on disk, however it is read, is what was in memory."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from treadle.errors import ThreadUnreadable
from treadle.thread.fork import fork
from treadle.thread.loaded import LoadReport
from treadle.thread.message import Message, Usage, decode_line
from treadle.thread.reading import Page, Reading
from treadle.thread.records import CompactedRecord, Note
from treadle.thread.replay import load
from treadle.thread.resume import resume
from treadle.thread.thread import Thread
from treadle.thread.transfer import export_lines
from treadle.thread.verify import repair, verify

pytestmark = pytest.mark.usefixtures("instant_disk")


@pytest.fixture
def instant_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush nothing, where a thousand threads are opened and no power fails."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None, raising=False)


class Story:
    """A thread on disk and its twin in memory, to which the same things happen."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.dice = random.Random(seed)
        self.thread = Thread.open(path)
        self.twin = Thread.in_memory()

    async def step(self) -> None:
        kind = self.dice.choice(["turn", "turn", "rewind", "compact", "reopen"])
        held = [
            n for first, last in self.twin.reading().history.held for n in range(first, last + 1)
        ]
        if kind == "turn" or not held:
            await self.turn()
        elif kind == "rewind":
            to = self.dice.choice([-1, *held])
            assert await self.thread.rewind(to) == await self.twin.rewind(to)
        elif kind == "compact":
            await self.compact()
        else:
            self.thread.close()
            self.thread = Thread.open(self.path)

    async def turn(self) -> None:
        assert self.thread.start_turn() == self.twin.start_turn()
        for _ in range(self.dice.randrange(4)):
            role = self.dice.choice(["user", "assistant"])
            message = Message(role, f"{self.dice.random()} \u2028")  # type: ignore[arg-type]  # a role
            await self.twin.append(await self.thread.append(message))
            if self.dice.random() < 0.2:
                await self.compact()
        await self.thread.end_turn("end_turn", Usage(), 1)
        await self.twin.end_turn("end_turn", Usage(), 1)

    async def compact(self) -> None:
        seen = [
            n for first, last in self.twin.reading().history.seen() for n in range(first, last + 1)
        ]
        earlier = self.twin.compaction
        beyond = [n for n in seen if earlier is None or n >= earlier.through]
        if not beyond:
            return
        through = self.dice.choice(beyond)
        kept = [n for n in seen if n <= through and self.dice.random() < 0.6]
        record = CompactedRecord(
            id="c",
            through=through,
            keep=[(n, n) for n in kept],
            rewritten={n: f"short {n}" for n in kept if self.dice.random() < 0.3},
            notes=[Note(n, f"before {n}") for n in kept if self.dice.random() < 0.3],
            summary=f"summary {through}",
        )
        assert (await self.thread.record_compaction(record)).keep == record.keep
        await self.twin.record_compaction(record)

    def check(self) -> None:
        whole, quick = load(self.path), resume(self.path)
        view = self.twin.view()
        assert self.thread.view() == view
        for loaded in (whole, quick):
            placed = loaded.history.view(loaded.numbered())
            assert [one.message for one in placed] == [
                one.message for one in self.twin.reading().view()
            ]
            assert loaded.history.held == self.twin.reading().history.held
            assert (loaded.history.count, loaded.turns) == (self.twin.count, self.twin.turns)
        expected = pages(self.twin.reading())
        assert pages(self.thread.reading()) == pages(Reading.of_file(self.path)) == expected


def pages(reading: Reading) -> list[Page]:
    found = [reading.page(0, 5)]
    while found[-1].next_start is not None:
        found.append(reading.page(found[-1].next_start, 5))
    return found


@pytest.mark.parametrize("seed", range(40))
async def test_however_a_thread_lived_it_is_read_as_it_was(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.thread.resume.SEARCH_BYTES", 100)
    story = Story(tmp_path / "a.jsonl", seed)
    for _ in range(12):
        await story.step()
        story.check()
    into = tmp_path / "fork.jsonl"
    fork(story.path, into)
    copy = Thread.open(into)
    assert [m.text for m in copy.view()] == [m.text for m in story.twin.view()]
    copy.close()
    story.thread.close()


@pytest.fixture
async def lived(tmp_path: Path) -> bytes:
    """The bytes of a thread with rewinds, compactions, keys and an accepted message."""
    path = tmp_path / "lived.jsonl"
    story = Story(path, 5)
    for _ in range(3):
        await story.turn()
    await story.compact()
    await story.thread.rewind(story.thread.count - 2)
    story.thread.start_turn("key", "asked")
    await story.thread.append(story.thread.accept(Message("user", "and?")))
    await story.thread.end_turn("end_turn", Usage(3), 1)
    story.thread.close()
    return path.read_bytes()


def said(lines: list[bytes]) -> list[Message]:
    return [decode_line(line) for line in lines if line.startswith(b'{"role"')]


def everything(path: Path) -> list[Message]:
    return [one.message for page in pages(Reading.of_file(path)) for one in page.messages]


def test_a_file_cut_anywhere_loses_nothing_before_the_cut(lived: bytes, tmp_path: Path) -> None:
    path, damaged = tmp_path / "cut.jsonl", tmp_path / "cut.damaged"
    for size in range(len(lived) + 1):
        path.write_bytes(lived[:size])
        damaged.unlink(missing_ok=True)
        *whole, tail = lived[:size].split(b"\n")
        is_whole = tail == b"" or lived[size : size + 1] == b"\n"
        before = said([*whole, tail] if is_whole else whole)

        thread = Thread.open(path)
        thread.close()

        assert thread.report.torn_bytes == (0 if is_whole else len(tail))
        assert thread.report.quarantined_lines == 0
        assert everything(path)[: len(before)] == before
        assert (damaged.read_bytes() if damaged.exists() else b"") == (b"" if is_whole else tail)
        assert load(path).report.torn_bytes == 0


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 500, 50)])
def test_a_flipped_byte_loses_nothing_but_the_lines_it_touches(
    seeds: range, lived: bytes, tmp_path: Path
) -> None:
    path, damaged = tmp_path / "flip.jsonl", tmp_path / "flip.damaged"
    for seed in seeds:
        dice = random.Random(seed)
        place = dice.randrange(len(lived))
        flipped = bytearray(lived)
        flipped[place] ^= dice.randrange(1, 256)
        path.write_bytes(flipped)
        damaged.unlink(missing_ok=True)

        read_only = load(path).report
        thread = Thread.open(path)
        thread.view()
        thread.outcome_of("key")
        thread.close()
        again = Thread.open(path)
        again.close()

        start = lived.rfind(b"\n", 0, place) + 1
        end = lived.find(b"\n", place + 1)
        after = lived[end + 1 :] if end >= 0 else b""
        kept = everything(path)
        untouched = said((lived[:start] + after).split(b"\n"))
        assert [message for message in untouched if message not in kept] == []
        # What cannot be read is told once, and its bytes are in both files.
        assert thread.report.torn_bytes == read_only.torn_bytes
        bad = [line for line in bytes(flipped).split(b"\n") if line not in lived.split(b"\n")]
        if thread.report.quarantined_lines or thread.report.torn_bytes:
            assert any(line in damaged.read_bytes() for line in bad)
        assert (again.report.quarantined_lines, again.report.torn_bytes) == (0, 0)
        assert path.read_bytes().startswith(bytes(flipped[: len(flipped) - read_only.torn_bytes]))


def test_damage_that_hides_a_message_moves_no_ordinal_behind_the_next_turn(
    lived: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lived)
    before = {
        one.ordinal: one.message for page in pages(Reading.of_file(path)) for one in page.messages
    }
    lines = lived.split(b"\n")
    first = next(index for index, line in enumerate(lines) if line.startswith(b'{"role"'))
    for hidden in (b"x" + lines[first][1:], lines[first].replace(b'"role"', b'"rolf"')):
        path.write_bytes(b"\n".join([*lines[:first], hidden, *lines[first + 1 :]]))
        after = {
            one.ordinal: one.message for p in pages(Reading.of_file(path)) for one in p.messages
        }
        assert after == {key: value for key, value in before.items() if key != 0}
        assert load(path).history.count == len(before)


async def test_verify_tells_what_is_wrong_and_repair_mends_it(tmp_path: Path) -> None:
    folder = tmp_path / "threads" / "inbox"
    names = ["sound", "bad", "torn", "killed", "newer", "odd", "public", "held"]
    for name in names:
        thread = Thread.open(folder / f"{name}.jsonl", agent="inbox", instance=name)
        thread.start_turn()
        await thread.append(Message("user", "hi"))
        await thread.end_turn("end_turn", Usage(), 1)
        thread.close()

    def add(name: str, data: bytes) -> None:
        with (folder / f"{name}.jsonl").open("ab") as file:
            file.write(data)

    add("bad", b"{\nnull\n")
    add("torn", b'{"role":"us')
    add("killed", b'{"turn":{"number":2,"event":"start"}}\n')
    (folder / "newer.jsonl").write_bytes(b'{"thread":{"version":9,"forked":7}}\n')
    add("odd", b'{"rewound":{"to":70}}\n')
    (folder / "public.jsonl").chmod(0o644)
    (folder / "Strange.jsonl").write_bytes(b'{"role":"user","content":"hi"}\n')
    (folder / "dir.jsonl").mkdir()
    (folder / "half.new").write_bytes(b"{")
    holder = Thread.open(folder / "held.jsonl")
    holder.start_turn()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    found = [(one.path.name, one.kind, one.line) for one in verify(tmp_path)]
    assert found == [
        ("Strange.jsonl", "unknown_pair", 0),
        ("bad.jsonl", "bad_line", 5),
        ("bad.jsonl", "bad_line", 6),
        ("dir.jsonl", "unreadable", 0),
        ("killed.jsonl", "interrupted_turn", 0),
        ("newer.jsonl", "newer_version", 0),
        ("odd.jsonl", "odd_record", 0),
        ("public.jsonl", "open_to_others", 0),
        ("torn.jsonl", "torn_tail", 0),
        ("half.new", "left_behind", 0),
    ]
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before

    mended = {one.path.name: one for one in repair(tmp_path)}
    assert sorted(mended) == ["bad.jsonl", "half.new", "killed.jsonl", "public.jsonl", "torn.jsonl"]
    assert [one.problem for one in mended.values()] == [""] * 5
    assert mended["bad.jsonl"].report.quarantined_lines == 2
    left = ["Strange.jsonl", "dir.jsonl", "newer.jsonl", "odd.jsonl"]
    assert [one.path.name for one in verify(tmp_path)] == left
    assert not (folder / "half.new").exists()
    holder.close()


@pytest.mark.parametrize(
    "line",
    [
        '{"role":"user","content":"a\u2028b\u2029c\u0085d"}'.encode(),
        b'{"role":"user","content":"\\ud800 alone"}',
        b'{"role":"user","role":"user","content":"x","content":"y"}',
        b'{"role":"user","content":"n","x":99999999999999999999999}',
        b' {"x":{"role":"deep"},"role":"user"}\r',
        b'{"role":"user","content":"\\u0000"}',
        b'{"role":"user","x":' + b"[" * 200 + b"]" * 200 + b"}",
    ],
    ids=lambda line: repr(line[:40]),
)
def test_an_odd_line_is_a_message_like_any_other(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"role":"user","content":"hi"}\n' + line + b"\n")
    thread = Thread.open(path)
    thread.close()

    assert (thread.count, len(thread.messages), thread.report) == (2, 2, LoadReport())
    assert everything(path) == thread.messages
    assert len(list(export_lines(path))) == 2


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"9" * 5000])
def test_a_number_that_is_none_makes_a_bad_line(number: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"role":"user","content":"hi"}\n{"role":"user","x":[' + number + b"]}\n")
    thread = Thread.open(path)
    thread.close()

    assert thread.report == LoadReport(quarantined_lines=1)
    assert (thread.count, len(thread.messages)) == (2, 1)
    assert [page.messages[0].ordinal for page in pages(Reading.of_file(path))] == [0]


@pytest.mark.parametrize("version", [b"0", b'"2.0"', b"1.5", b"null", b"-3", b"[]"])
def test_a_file_of_an_unknown_version_is_read_as_far_as_it_goes(
    version: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"thread":{"version":' + version + b'}}\n{"role":"user","content":"hi"}\n')
    thread = Thread.open(path)
    thread.close()
    assert [message.text for message in thread.messages] == ["hi"]


@pytest.mark.parametrize(
    "header",
    [
        b'{"thread":{"version":2}}',
        b'{"thread":{"version":2,"forked":["other","shape"]}}',
        b'{"thread":{"version":99999999999999999999,"agent":7}}',
    ],
)
def test_a_file_of_a_newer_version_is_told_whatever_else_its_header_says(
    header: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(header + b'\n{"role":"user","content":"hi"}\n')
    before = path.read_bytes()
    with pytest.raises(ThreadUnreadable, match="update Treadle"):
        Thread.open(path)
    assert path.read_bytes() == before
    assert [message.text for message in everything(path)] == ["hi"]
