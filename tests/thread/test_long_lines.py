"""Lines that are absurdly long: counted and set aside like other bad ones, and never held."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.thread import lines
from treadle.thread.lines import digest_of, lines_of
from treadle.thread.loaded import LoadReport
from treadle.thread.replay import load, skim
from treadle.thread.thread import Thread
from treadle.thread.verify import verify_thread

HI = b'{"role":"user","content":"hi"}\n'
LONG_BYTES = 64 << 20
# A few pieces, and what a piece costs while it is looked at.
HELD_BYTES = 8 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads" / "a" / "i.jsonl"


@pytest.fixture
def short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lines be long that a test writes in no time."""
    monkeypatch.setattr(lines, "PIECE_BYTES", 100)
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 1000)
    monkeypatch.setattr("treadle.thread.tail.COPY_BYTES", 70)


def write(path: Path, *parts: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))


@pytest.mark.usefixtures("short_bounds")
@pytest.mark.parametrize("size_bytes", [99, 100, 101, 999, 1000, 1001, 1100, 5000])
@pytest.mark.parametrize(
    "start", [b"\0", b"42", b'{"role":"user","content":"', b'  {"turn":{', b" "], ids=repr
)
def test_a_long_line_is_set_aside_once_and_untouched_with_its_ordinal(
    start: bytes, size_bytes: int, path: Path
) -> None:
    bad = start + b"\1" * (size_bytes - len(start))
    content = HI + bad + b"\n" + HI
    write(path, content)

    first = Thread.open(path)
    first.close()
    again = Thread.open(path)
    again.close()

    is_message = bad.startswith(b'{"role"')
    assert first.report == LoadReport(quarantined_lines=1)
    assert list(load(path).ordinals) == ([0, 2] if is_message else [0, 1])
    assert again.report == LoadReport()
    assert path.read_bytes().startswith(content)
    assert path.with_suffix(".damaged").read_bytes() == bad + b"\n"


@pytest.mark.usefixtures("short_bounds")
@pytest.mark.parametrize("size_bytes", [99, 100, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("start", [b"\0", b'{"role":"user","content":"'], ids=repr)
def test_a_long_tail_is_set_aside_untouched(start: bytes, size_bytes: int, path: Path) -> None:
    torn = start + b"x" * (size_bytes - len(start))
    write(path, HI, torn)

    thread = Thread.open(path)
    thread.close()

    assert thread.report == LoadReport(torn_bytes=size_bytes)
    assert [one.text for one in thread.messages] == ["hi"]
    assert path.with_suffix(".damaged").read_bytes().rstrip(b"\n") == torn
    assert load(path).report == LoadReport()


@pytest.mark.usefixtures("short_bounds")
def test_what_is_long_and_not_too_long_is_read(path: Path) -> None:
    said = b'{"role":"user","content":"%b"}' % (b"x" * 900)
    spaced = b" " * 200 + HI
    write(path, said + b"\n", b" " * 500 + b"\n", spaced, said)

    loaded = load(path)

    assert [len(one.text) for one in loaded.messages] == [900, 2, 900]
    assert (loaded.report, loaded.lacks_line_end) == (LoadReport(), True)


@pytest.mark.usefixtures("short_bounds")
def test_lines_that_come_in_pieces_have_all_their_bytes(path: Path) -> None:
    content = HI + b"\0" * 2500 + b"\n" + HI + b"torn"
    write(path, content)

    with path.open("rb") as file:
        assert b"".join(lines_of(file)) == content


@pytest.mark.usefixtures("short_bounds")
def test_a_long_line_is_told_by_the_digest_of_all_its_bytes(path: Path) -> None:
    write(path, b"\0" * 2500 + b"\n")

    (bad,) = load(path).bad_lines

    assert (bad.size_bytes, bad.digest) == (2500, digest_of(b"\0" * 2500))


@pytest.mark.parametrize(
    "look",
    [load, skim, lambda path: Thread.open(path).close(), lambda path: [*_verified(path)]],
    ids=["load", "skim", "open", "verify"],
)
@pytest.mark.parametrize("end", [b"\n" + HI, b""], ids=["line", "tail"])
def test_a_line_of_nothing_but_zeros_is_never_held_in_memory(
    look: Callable[[Path], object], end: bytes, path: Path
) -> None:
    write(path, HI)
    with path.open("r+b") as file:
        file.truncate(len(HI) + LONG_BYTES)  # zeros that take no room on the disk
        file.seek(0, 2)
        file.write(end)
    tracemalloc.start()
    try:
        look(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < HELD_BYTES


def _verified(path: Path) -> list[str]:
    found = [one.kind for one in verify_thread(path.parents[2], path)]
    assert found[:1] in (["bad_line"], ["open_to_others"])
    return list(found)
