"""What a chat keeps between runs: history and drafts, private, bounded, shared."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from support.process import posix_only
from treadle.cli.chat import store
from treadle.cli.chat.store import Draft, History


def test_history_is_what_was_typed_in_order_with_every_character(tmp_path: Path) -> None:
    typed = ["one", "two\nlines", "麦克 \u2028 é", "tab\there", '"quoted" \\']
    for entry in typed:
        History(tmp_path).append(entry)
    assert History(tmp_path).load() == typed


@posix_only
def test_what_is_kept_is_nobody_elses(tmp_path: Path) -> None:
    History(tmp_path).append("mine")
    Draft(tmp_path, "麦克", "default").save("also mine")
    kept = list((tmp_path / "chat").rglob("*"))
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in kept}
    assert modes == {(True, 0o700), (False, 0o600)}


def test_two_chats_at_once_lose_and_mix_no_entry(tmp_path: Path) -> None:
    def type_much(who: int) -> None:
        history = History(tmp_path)
        for number in range(200):
            history.append(f"{who}: {number} " + "x" * 200)

    threads = [threading.Thread(target=type_much, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = [entry.partition(" x")[0] for entry in History(tmp_path).load()]
    for who in range(4):
        mine = [entry for entry in loaded if entry.startswith(f"{who}: ")]
        assert mine == [f"{who}: {number}" for number in range(200)]


def test_history_is_bounded_and_its_newest_entries_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "HISTORY_BYTES", 1000)
    for number in range(500):
        History(tmp_path).append(f"entry {number}")
    loaded = History(tmp_path).load()
    assert loaded == [f"entry {number}" for number in range(500 - len(loaded), 500)]
    assert 50 < len(loaded) < 200
    size = sum(path.stat().st_size for path in (tmp_path / "chat").iterdir())
    assert size < 2200


def test_an_entry_that_is_far_too_long_and_lines_that_are_none_are_left_out(tmp_path: Path) -> None:
    History(tmp_path).append("x" * store.ENTRY_BYTES)
    History(tmp_path).append("kept")
    with (tmp_path / "chat" / "history.jsonl").open("ab") as file:
        file.write(b'{"a": 1}\nnot json\n\xff\n"torn')
    assert History(tmp_path).load() == ["kept"]


def test_a_draft_comes_back_for_its_own_pair_until_it_is_empty(tmp_path: Path) -> None:
    draft = Draft(tmp_path, "a", "麦克")
    assert draft.load() == ""
    draft.save("half a\nthought é")
    assert Draft(tmp_path, "a", "麦克").load() == "half a\nthought é"
    assert Draft(tmp_path, "a", "other").load() == ""
    draft.save("")
    assert Draft(tmp_path, "a", "麦克").load() == ""
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@posix_only
def test_a_disk_that_takes_nothing_costs_the_history_and_never_the_chat(tmp_path: Path) -> None:
    (tmp_path / "chat").write_text("in the way")
    History(tmp_path).append("lost")
    Draft(tmp_path, "a", "b").save("lost too")
    assert History(tmp_path).load() == []


def test_a_history_of_garbage_gives_the_entries_that_can_be_read(tmp_path: Path) -> None:
    History(tmp_path).append("one")
    with (tmp_path / "chat" / "history.jsonl").open("ab") as file:
        file.write(b'null\n{"a"\n\xff\n' + b"[" * 100_000 + b'\n"two"\n')
    assert History(tmp_path).load() == ["one", "two"]


@posix_only
def test_a_pipe_in_the_place_of_a_file_costs_what_is_kept_and_is_not_waited_for(
    tmp_path: Path,
) -> None:
    drafts = tmp_path / "chat" / "drafts" / "assistant"
    drafts.mkdir(parents=True)
    os.mkfifo(tmp_path / "chat" / "history.jsonl")
    os.mkfifo(drafts / "default.txt")
    History(tmp_path).append("one")
    assert History(tmp_path).load() == []
    draft = Draft(tmp_path, "assistant", "default")
    assert draft.load() == ""
    draft.save("two")
    assert draft.load() == "two"
