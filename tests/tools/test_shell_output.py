"""What a model reads of a command's output: plain text, its end, and where the whole is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import until_seen
from treadle import secrets
from treadle.tools import spill as spills
from treadle.tools.commands import capture as limits
from treadle.tools.commands.capture import KEPT_BYTES, Capture
from treadle.tools.commands.plain_text import PlainText
from treadle.tools.spill import Spill

SECRET = "sk-never-to-be-seen-4711"


def plain(*pieces: bytes) -> str:
    text = PlainText()
    return "".join([*map(text.take, pieces), text.rest()])


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (b"caf\xc3\xa9\n", "café\n"),
        (b"caf\xe9\n", "caf\ufffd\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"\x1b[1;31mred\x1b[0m and \x1b[Kplain", "red and plain"),
        (b"\x1b]0;a title\x07shown", "shown"),
        (b"\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Bascii\x1b=", "ascii"),
        (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        (b"50%\r\x1b[Kdone\n", "done\n"),
        (b"100%\r\n", "100%\n"),
        (b"100%\r", "100%"),
        (b"N\bNA\bA\n", "NA\n"),
        (b"\b\bx", "x"),
        (b"a\x00b\x07c\x7fd\x0e\x0f\te", "abcd\te"),
        (b"a lone \x1b\nescape", "a lone \nescape"),
        (b"\x1b[31", ""),
        (b"", ""),
    ],
)
def test_what_is_meant_for_a_terminal_is_made_plain(printed: bytes, text: str) -> None:
    assert plain(printed).replace("[31", "") == text
    bytewise = plain(*(printed[at : at + 1] for at in range(len(printed))))
    assert bytewise.replace("[31", "") == text


_TERMINALS = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\b",
    b"\x1b",
    b"\x1b[3",
    b"1m",
    b"\x1b]0;",
    b"\x07",
    b"\x1b\\",
]
_PARTS = st.sampled_from([*_TERMINALS, b"a", b"\xc3", b"\xa9", b"x" * 40])


@given(st.lists(st.lists(_PARTS, max_size=6).map(b"".join), max_size=8))
def test_the_borders_of_pieces_change_nothing(pieces: list[bytes]) -> None:
    assert plain(*pieces) == plain(b"".join(pieces))


def test_a_sequence_that_never_ends_swallows_no_more_than_its_beginning() -> None:
    text = PlainText()
    assert text.take(b"\x1b]0;a title") == ""
    assert text.take(b" without end\nline\n") == "]0;a title without end\nline\n"
    assert plain(b"\x1b]" + b"x" * 10_000) == "]" + "x" * 10_000


def test_a_progress_bar_without_an_end_takes_no_memory() -> None:
    text = PlainText()
    for number in range(10_000):
        assert text.take(b"\r%d %%" % number) == ""
    assert text.unfinished == "9999 %"


def capture(folder: Path | None = None, told: list[str] | None = None) -> Capture:
    return Capture(Spill(folder), (told if told is not None else []).append)


async def test_the_end_is_kept_and_the_whole_is_on_the_disk(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "outputs")
    taken = Capture(spill, lambda _: None)
    whole = "".join(f"line {number}\n" for number in range(20_000))
    for at in range(0, len(whole), 999):
        await taken.take(whole[at : at + 999].encode())
    await taken.end()

    printed = taken.printed()
    assert whole.endswith(printed.text)
    assert printed.text.startswith("line ")
    assert KEPT_BYTES - 2000 < len(printed.text) <= KEPT_BYTES
    cut = len(whole) - len(printed.text)
    assert printed.cut == (
        f"[{cut:,} bytes before this are not shown; all of it is in output://1.txt]"
    )
    assert await spill.read("output://1.txt") == whole.encode()
    assert (tmp_path / "outputs").stat().st_mode & 0o077 == 0
    await spill.close()
    assert not (tmp_path / "outputs").exists()


async def test_what_fits_makes_no_file(tmp_path: Path) -> None:
    taken = capture(tmp_path / "outputs")
    await taken.take(b"x" * 2000 + b"\n" + b"y" * (KEPT_BYTES - 2001))
    await taken.end()
    assert taken.printed().cut == ""
    assert len(taken.printed().text) == KEPT_BYTES
    assert not (tmp_path / "outputs").exists()


async def test_a_disk_that_is_not_to_be_filled_says_how_much_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spills, "KEPT_FILE_BYTES", 60_000)
    taken = capture(tmp_path)
    for _ in range(100):
        await taken.take(b"x" * 999 + b"\n")
    await taken.end()
    assert taken.printed().cut.endswith(
        "the first 60,000 bytes of all are in output://1.txt, the others are not kept]"
    )
    assert (tmp_path / "1.txt").stat().st_size == 60_000


async def test_where_nothing_can_be_kept_that_is_said() -> None:
    taken = capture(None)
    await taken.take(b"x\n" * KEPT_BYTES)
    await taken.end()
    assert taken.printed().cut.endswith("bytes before this are not shown, and not kept]")


@pytest.mark.parametrize("step", [1, 5, 4096])
async def test_a_secret_is_in_neither_whatever_the_borders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(secrets, "_values", (("the key", SECRET),))
    monkeypatch.setattr(limits, "KEPT_BYTES", 1000)
    told: list[str] = []
    taken = capture(tmp_path, told)
    data = (f"token={SECRET[:9]}\x1b[0m{SECRET[9:]}\n" * 60).encode()
    for at in range(0, len(data), step):
        await taken.take(data[at : at + step])
        assert SECRET[9:] not in taken.printed().text
    await taken.end()

    assert taken.printed().text.endswith("token=[secret the key]\n")
    assert (tmp_path / "1.txt").read_text() == "token=[secret the key]\n" * 60
    assert told
    assert SECRET[9:] not in str(told)


async def test_what_is_new_since_the_last_look_is_shown_with_the_line_that_goes_on() -> None:
    taken = capture()
    await taken.take(b"one\ntwo\nWaiting: ")
    first = taken.printed()
    await taken.take(b"done\nthree\n")
    second = taken.printed(first.end)
    third = taken.printed(second.end)

    assert first.text == "one\ntwo\nWaiting: "
    assert second.text == "Waiting: done\nthree\n"
    assert third.text == ""
    assert not (first.cut or second.cut or third.cut)


async def test_more_than_is_kept_between_two_looks_is_told(tmp_path: Path) -> None:
    taken = capture(tmp_path)
    await taken.take(b"begin\n")
    first = taken.printed()
    await taken.take(b"x\n" * KEPT_BYTES)
    second = taken.printed(first.end)
    await taken.end()
    assert len(second.text) <= KEPT_BYTES
    missing = 2 * KEPT_BYTES - len(second.text)
    assert second.cut.startswith(f"[{missing:,} bytes before this are not shown")


async def test_watchers_hear_the_last_line_and_not_every_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PROGRESS_SECONDS", 0.01)
    told: list[str] = []
    taken = capture(told=told)
    for number in range(1000):
        await taken.take(b"line %d\n" % number)
    assert told == ["line 0"]
    await until_seen(lambda: told[-1] == "line 999")
    await taken.take(b"\n\n   \nunfinished " + b"y" * 1000)
    await until_seen(lambda: told[-1].startswith("unfinished yyy"))
    assert len(told[-1]) == 200
    await taken.end()


async def test_two_outputs_that_begin_at_once_are_both_kept(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    spill = Spill(tmp_path)
    paths = await asyncio.gather(*(spill.keep(f"text {number}") for number in range(8)))
    kept = [await spill.read(path) for path in paths if path]
    assert kept == [f"text {number}".encode() for number in range(8)]
    assert not (tmp_path / "old").exists()
    await spill.close()
