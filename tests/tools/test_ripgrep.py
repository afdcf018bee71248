"""A search by ripgrep: how it is called, and what becomes of one that is odd."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.calls import SOON_SECONDS, on_disk
from support.waiting import until_seen
from treadle.sandbox.sandbox import READ_LIMIT_BYTES
from treadle.tools.search import grep as grep_module
from treadle.tools.search import ripgrep


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
class TestAStrangeRipgrep:
    """What becomes of a search by a program that is not what it should be."""

    @staticmethod
    def _install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        folder = tmp_path / "programs"
        folder.mkdir()
        program = folder / "rg"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    @pytest.mark.parametrize("script", ["exit 2", "kill -9 $$", "printf './f\\0'; exit 3"])
    async def test_where_it_fails_everything_is_searched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
    ) -> None:
        self._install(tmp_path, monkeypatch, script)
        caller = on_disk(tmp_path / "root", {"f": b"x\n", "g": b"x\n"})
        assert await caller.told("grep", pattern="x", files_only=True) == "f\ng"

    async def test_what_it_names_beyond_what_it_was_given_is_not_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "outside").write_text("x\n", encoding="utf-8")
        self._install(
            tmp_path, monkeypatch, "printf './g\\0../outside\\0/etc/passwd\\0./.hidden\\0'"
        )
        caller = on_disk(tmp_path / "root", {"f": b"x\n", "g": b"x\n", ".hidden": b"x\n"})
        assert await caller.told("grep", pattern="x", files_only=True) == "g"

    async def test_it_gets_no_environment_and_its_pattern_as_one_argument(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/somewhere")
        monkeypatch.setenv("HOME", "/home/somebody")
        heard = tmp_path / "heard"
        self._install(
            tmp_path,
            monkeypatch,
            f'echo "[$HOME][$RIPGREP_CONFIG_PATH]" > {heard}; for a; do echo "$a" >> {heard}; done',
        )
        caller = on_disk(tmp_path / "root", {"-x": b"", "f": b""})
        await caller.told("grep", pattern="--pre=sh -e")
        environment, *arguments = heard.read_text(encoding="utf-8").split("\n")
        assert environment == "[][]"
        assert arguments[-5:] == ["--regexp=--pre=sh -e", "--", "./-x", "./f", ""]
        assert [each for each in arguments if each.startswith("--pre")] == []
        assert {"--no-config", "--no-follow", "--null"} <= set(arguments)

    async def test_one_in_the_folder_that_is_searched_is_not_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._install(tmp_path, monkeypatch, "exit 1")
        assert ripgrep.installed(tmp_path) is None
        assert ripgrep.installed(tmp_path / "elsewhere") == str(tmp_path / "programs/rg")

    @pytest.mark.parametrize("how", ["cancelled", "too late"])
    async def test_one_that_hangs_is_ended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        started = tmp_path / "pid"
        self._install(tmp_path, monkeypatch, f"echo $$ > {started}; while :; do /bin/sleep 1; done")
        if how == "too late":
            monkeypatch.setattr(grep_module, "SEARCH_SECONDS", 0.3)
        caller = on_disk(tmp_path / "root", {"f": b"x\n"})
        running = asyncio.create_task(caller.call("grep", pattern="x"))
        if how == "cancelled":
            await until_seen(lambda: started.exists() and bool(started.read_text().strip()))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            said = (await asyncio.wait_for(running, SOON_SECONDS)).content
            assert said.startswith("The search took too long")
        # Ended too early, it had not said who it is.
        if started.exists() and started.read_text():
            # Killed; who is dead is in its group until the system has buried it.
            await until_seen(lambda: _is_gone(int(started.read_text())))


def _is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_file_too_large_to_be_read_holds_nothing_up_and_is_named(
    tmp_path: Path, engine: str
) -> None:
    caller = on_disk(tmp_path, {"f": b"needle\n"})
    with (tmp_path / "disk.img").open("wb") as file:
        file.truncate(READ_LIMIT_BYTES + 1)
    assert await caller.told("grep", pattern="needle") == (
        "f\n1: needle\n… not searched, unreadable or too large: disk.img"
    )
    with (tmp_path / "f").open("wb") as file:
        file.truncate(READ_LIMIT_BYTES + 1)
    assert await caller.told("grep", pattern="needle") == (
        "No line matches 'needle' in 2 files of '.'.\n"
        "… not searched, unreadable or too large: disk.img, f"
    )


def test_files_are_given_to_ripgrep_in_bounded_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "_ARGUMENTS_CHARACTERS", 20)
    places = ["a" * 10, "b" * 10, "c", "d" * 50, "e"]
    assert list(ripgrep.batches(places)) == [["a" * 10], ["b" * 10, "c"], ["d" * 50], ["e"]]
