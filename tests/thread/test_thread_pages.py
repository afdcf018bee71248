"""Pages of a thread that nobody has open: read once, right whatever becomes of the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from treadle.thread.index import REMEMBERED_FILES, Index
from treadle.thread.message import Message, encode_line
from treadle.thread.reader import Reader
from treadle.thread.reading import Page, Reading
from treadle.thread.records import RewoundRecord, encode_record
from treadle.thread.replay import load


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "i.jsonl"


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return where files were begun to be looked through."""
    begun: list[int] = []
    read_lines = Reader.read_lines

    def noted(self: Reader, file: BinaryIO, start: int) -> int:
        begun.append(start)
        return read_lines(self, file, start)

    monkeypatch.setattr(Reader, "read_lines", noted)
    return begun


def lines(*texts: object) -> bytes:
    return b"".join(encode_line(Message("user", f"{text}")) + b"\n" for text in texts)


def pages(path: Path, limit: int = 7) -> Iterator[Page]:
    start: int | None = 0
    while start is not None:
        page = Reading.of_file(path).page(start, limit)
        start = page.next_start
        yield page


def told(path: Path) -> list[tuple[int | None, str, bool]]:
    return [
        (one.ordinal, one.message.text, one.rewound)
        for page in pages(path)
        for one in page.messages
    ]


def expected(path: Path) -> list[tuple[int | None, str, bool]]:
    loaded = load(path)
    placed = loaded.history.place(loaded.numbered())
    return [(one.ordinal, one.message.text, one.rewound) for one in placed]


def test_whoever_turns_the_pages_has_the_file_looked_through_once(
    path: Path, starts: list[int]
) -> None:
    path.write_bytes(lines(*range(100)))

    assert len([*pages(path)]) == 15
    assert starts == [0]


def test_of_a_file_that_grows_only_what_is_new_is_looked_through(
    path: Path, starts: list[int]
) -> None:
    path.write_bytes(lines(*range(100)))
    found = [Reading.of_file(path).page(0, 50)]
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(encode_record(RewoundRecord(9)) + b"\n" + lines("a", "b"))

    found.append(Reading.of_file(path).page(50, 100))

    assert starts == [0, size]
    assert [one.rewound for one in found[0].messages] == [False] * 50
    assert [one.rewound for one in found[1].messages] == [True] * 50 + [False] * 2
    assert told(path) == expected(path)


def grow_by_a_tail(path: Path) -> None:
    with path.open("ab") as file:
        file.write(lines("tail")[:-1])


def grow_by_half_a_line(path: Path) -> None:
    with path.open("ab") as file:
        file.write(lines("tail")[:10])


def grow_by_an_odd_line(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0\0\n" + lines("behind"))


def insert_in_place(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(lines("new") + data)


def change_in_place(path: Path) -> None:
    data = path.read_bytes().replace(b'"5"', b'"!"')
    path.write_bytes(data)
    os.utime(path, ns=(0, 1))


def shrink(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(lines(*range(100, 150)) + path.read_bytes())
    other.replace(path)


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    "change",
    [
        grow_by_a_tail,
        grow_by_half_a_line,
        grow_by_an_odd_line,
        insert_in_place,
        change_in_place,
        shrink,
        replace,
        delete,
    ],
)
@pytest.mark.parametrize("tail", [b"", lines("end")[:-1], b'{"ro'], ids=["whole", "end", "torn"])
def test_pages_are_those_of_the_file_as_it_is_now(change: object, tail: bytes, path: Path) -> None:
    path.write_bytes(lines(*range(300)) + tail)
    assert told(path) == expected(path)
    assert callable(change)
    for _ in range(3):
        if path.exists():
            change(path)
        assert told(path) == expected(path)


def test_only_the_files_that_were_looked_at_last_are_remembered(
    tmp_path: Path, starts: list[int]
) -> None:
    paths = [tmp_path / f"{number}.jsonl" for number in range(REMEMBERED_FILES + 1)]
    index = Index()
    for path in paths:
        path.touch()
    for path in [*paths, *paths[1:], paths[0]]:
        with path.open("rb") as file:
            index.find(path, file)

    assert len(starts) == len(paths) + 1


def test_a_file_that_is_mostly_damage_is_not_remembered(path: Path, starts: list[int]) -> None:
    path.write_bytes(b"?\n" * 2000 + lines(*range(10)))

    assert told(path) == expected(path)
    assert starts.count(0) == 3
