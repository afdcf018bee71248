"""The tools `glob`, `grep` and `todo`, as a model meets them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.calls import Caller, in_memory, on_disk
from support.peers import require_program
from support.waiting import until_seen
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import READ_LIMIT_BYTES
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.search import grep as grep_module
from treadle.tools.search import matching, ripgrep
from treadle.tools.search.globbing import chosen
from treadle.tools.search.matching import Hit, compiled
from treadle.tools.session import ToolSession
from treadle.tools.spill import Spill

# A project with something of everything that is looked through, and left out.
PROJECT = {
    ".gitignore": b"build/\n*.log\n",
    ".github/ci.yml": b"run: needle\n",
    "README.md": b"# A needle\n",
    "build/out.py": b"needle\n",
    "debug.log": b"needle\n",
    "image.bin": b"needle\0needle\n",
    "latin.txt": b"caf\xe9 needle\n",
    "src/a.py": b"import re\r\nneedle = 1\r\nprint(needle)\r\n",
    "src/lib/b.py": b"one\ntwo\nneedle\nfour\nfive\nsix\nneedle\n",
    "src/lib/c.ts": b"let needle = 2;\n",
    "wide.txt": "n\u00f6\nneedle \u20ac\n".encode("utf-16"),
}

SECONDS = 10.0


@pytest.fixture(params=["library", "ripgrep"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Search by our own means, and by ripgrep where it is installed."""
    if request.param == "library":
        monkeypatch.setattr(ripgrep, "installed", lambda folder: None)
    else:
        require_program("rg")
    return str(request.param)


def _numbers(*numbers: int) -> list[Hit]:
    return [Hit(number, 0) for number in numbers]


# Names


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("*.py", ["src/a.py", "src/lib/b.py"]),
        ("/*.md", ["README.md"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/lib/b.py"]),
        ("**/lib/*", ["src/lib/b.py", "src/lib/c.ts"]),
        ("src/", ["src/a.py", "src/lib/b.py", "src/lib/c.ts"]),
        ("src/lib/**", ["src/lib/b.py", "src/lib/c.ts"]),
        ("*.{py,ts}", ["src/a.py", "src/lib/b.py", "src/lib/c.ts"]),
        ("{README.md,src/*.{py,rs}}", ["README.md", "src/a.py"]),
        ("[ab].py", ["src/a.py", "src/lib/b.py"]),
        ("[!a].py", ["src/lib/b.py"]),
        ("?.ts", ["src/lib/c.ts"]),
        ("*/a.py", ["src/a.py"]),
        ("**/.github/**", [".github/ci.yml"]),
        (".g*", [".gitignore"]),
        ("./src/a.py", ["src/a.py"]),
    ],
)
async def test_files_are_found_by_name(pattern: str, files: list[str]) -> None:
    assert (await in_memory(dict(PROJECT)).told("glob", pattern=pattern)).split("\n") == files


async def test_names_below_a_path_count_from_there_and_are_told_from_the_root() -> None:
    caller = in_memory(dict(PROJECT))
    assert await caller.told("glob", pattern="lib/*.py", path="src") == "src/lib/b.py"
    assert await caller.told("glob", pattern="*", path="src/a.py") == "src/a.py"
    assert await caller.told("glob", pattern="*.yml", path=".github") == ".github/ci.yml"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("*.rs", "No file matches '*.rs' in '.', of 9 there."),
        ("scr/*.py", "No file matches 'scr/*.py' in '.', of 9 there. Did you mean src/?"),
        ("src/lob/*", "No file matches 'src/lob/*' in '.', of 9 there. Did you mean src/lib/?"),
        (
            "build/*",
            "No file matches 'build/*' in '.', of 9 there. Left out by ignore files: build/out.py",
        ),
    ],
)
async def test_no_match_says_what_may_have_been_meant(pattern: str, said: str) -> None:
    assert await in_memory(dict(PROJECT)).told("glob", pattern=pattern) == said


async def test_a_thousand_names_are_shown_and_the_others_counted() -> None:
    caller = in_memory({f"{number:04}.txt": b"" for number in range(1002)})
    lines = (await caller.told("glob", pattern="*.txt")).split("\n")
    assert lines[:2] == ["0000.txt", "0001.txt"]
    assert lines[999:] == ["0999.txt", "… 2 more; use a narrower pattern or a path"]


@given(st.text(alphabet="ab*?[]{},!/.\\-^", max_size=12))
def test_whatever_is_given_as_a_name_pattern_has_an_answer(pattern: str) -> None:
    try:
        found = chosen(["a", "b/a", "a.b"], pattern)
    except Exception as error:
        assert type(error).__name__ == "ToolError"
    else:
        assert set(found) <= {"a", "b/a", "a.b"}


def test_a_name_pattern_of_many_stars_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.tools.search.globbing.MATCH_SECONDS", 0.05)
    began = time.monotonic()
    with pytest.raises(Exception, match="takes too long: use fewer stars"):
        chosen(["a" * 250] * 100, "*a" * 40 + "b")
    assert time.monotonic() - began < SECONDS


# Text


async def test_lines_are_found_below_the_names_of_their_files(tmp_path: Path, engine: str) -> None:
    caller = on_disk(tmp_path / "root", PROJECT)
    assert await caller.told("grep", pattern=r"\bneedle\b") == "\n".join(
        [
            "README.md",
            "1: # A needle",
            "",
            "latin.txt",
            "1: café needle",
            "",
            "src/a.py",
            "2: needle = 1",
            "3: print(needle)",
            "",
            "src/lib/b.py",
            "3: needle",
            "7: needle",
            "",
            "src/lib/c.ts",
            "1: let needle = 2;",
            "",
            "wide.txt",
            "2: needle \u20ac",
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "NEEDLE", "ignore_case": True, "glob": "*.py"}, ["src/a.py", "src/lib/b.py"]),
        ({"pattern": "needle$", "glob": "*.py"}, ["src/lib/b.py"]),
        ({"pattern": "1$"}, ["src/a.py"]),
        ({"pattern": "needle", "glob": "!*.py", "path": "src"}, ["src/lib/c.ts"]),
        ({"pattern": "needle", "path": "src/a.py"}, ["src/a.py"]),
        ({"pattern": "needle", "path": "debug.log"}, ["debug.log"]),
        ({"pattern": "needle", "path": ".github"}, [".github/ci.yml"]),
        ({"pattern": "needle", "glob": ".github/**"}, [".github/ci.yml"]),
        ({"pattern": "needle", "path": "build"}, ["build/out.py"]),
        ({"pattern": "(?<=let )needle"}, ["src/lib/c.ts"]),
        ({"pattern": r"caf\S needle|n\W$|^n.$"}, ["latin.txt", "wide.txt"]),
        ({"pattern": "-e needle|^# A"}, ["README.md"]),
        ({"pattern": "--files|^let "}, ["src/lib/c.ts"]),
    ],
)
async def test_what_is_searched_and_how(
    tmp_path: Path, engine: str, arguments: dict[str, object], files: list[str]
) -> None:
    caller = on_disk(tmp_path / "root", PROJECT)
    said = await caller.told("grep", files_only=True, **arguments)
    assert said.split("\n") == files


async def test_names_that_look_like_options_are_names(tmp_path: Path, engine: str) -> None:
    files = {"--help": b"x\n", "-": b"x\n", "-e": b"x\n", "a b": b"x\n"}
    caller = on_disk(tmp_path / "root", files)
    assert (await caller.told("grep", pattern="x", files_only=True)).split("\n") == sorted(files)


async def test_lines_around_a_match_are_shown_once() -> None:
    caller = in_memory({"f": b"1\n2\nx\n4\nx\n6\n7\n8\n9\nx\n"})
    assert await caller.told("grep", pattern="x", context_lines=1) == (
        "f\n2- 2\n3: x\n4- 4\n5: x\n6- 6\n--\n9- 9\n10: x"
    )


async def test_a_long_line_is_shown_around_its_match() -> None:
    caller = in_memory({"f": b"a" * 1000 + b"needle" + b"b" * 1000})
    said = await caller.told("grep", pattern="needle")
    assert said == (f"f\n1: …{'a' * 100}needle{'b' * 294}… [706 more characters in this line]")


async def test_a_search_stops_at_its_limit_and_says_so() -> None:
    caller = in_memory({"f": b"x\n" * 5, "g": b"x\n", "h": b"x\n"})
    assert await caller.told("grep", pattern="x", limit=2) == (
        "f\n1: x\n2: x\n… stopped after 2 matching lines; narrow pattern, path or glob for the rest"
    )
    assert await caller.told("grep", pattern="x", limit=2, files_only=True) == (
        "f\ng\n… stopped after 2 files; narrow pattern, path or glob for the rest"
    )
    assert await caller.told("grep", pattern="x", limit=7, path="f") == "f" + "".join(
        f"\n{number}: x" for number in range(1, 6)
    )


async def test_a_search_fits_a_result_whatever_is_found() -> None:
    caller = in_memory({f"{n:03}": b"\n".join([b"\xc3\xbc" * 390] * 20) for n in range(100)})
    outcome = await caller.call("grep", pattern="ü", limit=1000)
    assert (outcome.ok, outcome.truncated) == (True, False)
    assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES
    assert "\n… stopped where it is full; narrow" in outcome.content


async def test_a_secret_is_neither_shown_nor_found(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    caller = on_disk(tmp_path / "root", {"f": b"key=sk-0123456789\n"})
    assert await caller.told("grep", pattern="key") == "f\n1: key=[secret OPENAI_API_KEY]"
    assert await caller.told("grep", pattern="sk-0") == "No line matches 'sk-0' in 1 file of '.'."


async def test_a_kept_output_is_searched(tmp_path: Path) -> None:
    session = ToolSession(spill=Spill(tmp_path / "outputs"))
    kept = await session.spill.keep("one\nneedle\n")
    caller = Caller(in_memory().sandbox, session=session)
    assert await caller.told("grep", pattern="need", path=kept) == f"{kept}\n2: needle"
    assert await caller.told("grep", pattern="x", path=kept) == f"No line of {kept} matches 'x'."
    await session.close()


class Editing(LocalSandbox):
    """A folder with a file that an editor holds unsaved."""

    async def unsaved(self) -> Collection[str]:
        return ["f"]

    async def read_bytes(self, path: str) -> bytes:
        return b"unsaved needle\n" if path == "f" else await super().read_bytes(path)


async def test_unsaved_text_is_searched_in_place_of_its_file(tmp_path: Path, engine: str) -> None:
    root = tmp_path / "root"
    on_disk(root, {"f": b"saved\n", "g": b"saved needle\n"})
    caller = Caller(Editing(root))
    assert (
        await caller.told("grep", pattern="needle") == "f\n1: unsaved needle\n\ng\n1: saved needle"
    )
    assert await caller.told("grep", pattern="^saved") == "g\n1: saved needle"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "'(' is no regular expression: missing )"),
        ("*a", "is no regular expression: nothing to repeat"),
        ("a\nb", "holds a line feed, but one line at a time is searched"),
        ("a{1000}{1000}{1000}", "repeats too much"),
        ("(?R)", "has a kind of group that is not supported"),
        ("(" * 900 + ")" * 900, "is no regular expression"),
    ],
)
async def test_a_bad_pattern_says_what_is_wrong_with_it(pattern: str, said: str) -> None:
    assert said in await in_memory({"f": b"x\n"}).refused("grep", pattern=pattern)


@pytest.mark.parametrize("pattern", ["interface{}", "{x", "a{b}", "}", r"\{x", "[{]"])
def test_braces_that_repeat_nothing_stand_for_themselves(pattern: str) -> None:
    text = "interface{} {x a{b} }\n"
    hits = list(compiled(pattern, ignore_case=False).hits(text, time.monotonic() + SECONDS))
    assert len(hits) == 1


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("^", [1, 2, 3, 4]),
        ("^$", [2]),
        ("x*", [1, 2, 3, 4]),
        (r"\s", [3]),
        (r"a\s+b", []),
        (r"[^a]", [3, 4]),
        (r"\Ab\Z", [4]),
        (r"(?i)B", [4]),
    ],
)
def test_a_pattern_sees_one_line_at_a_time(pattern: str, lines: list[int]) -> None:
    found = compiled(pattern, ignore_case=False).hits("a\n\n a\nb\n", time.monotonic() + SECONDS)
    assert [hit.line for hit in found] == lines


@given(
    st.lists(st.text(alphabet="abx ", max_size=6), max_size=20),
    st.sampled_from(["x", "^a", "b$", "a|b", "a.*x", "[^ab]", r"\s", "^$", "ab?x*"]),
    st.integers(1, 12),
)
def test_pieces_and_lines_find_the_same(lines: list[str], pattern: str, piece: int) -> None:
    import re

    before = matching._PIECE_CHARACTERS
    matching._PIECE_CHARACTERS = piece
    try:
        text = "".join(f"{line}\n" for line in lines)
        found = list(compiled(pattern, ignore_case=False).hits(text, time.monotonic() + SECONDS))
    finally:
        matching._PIECE_CHARACTERS = before
    wanted = [(number, re.search(pattern, line)) for number, line in enumerate(lines, 1)]
    assert found == [Hit(number, match.start()) for number, match in wanted if match]


async def test_a_pattern_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_module, "SEARCH_SECONDS", 0.2)
    caller = in_memory({"f": b"x" * 3000 + b"\n"})
    said = await asyncio.wait_for(
        caller.refused("grep", pattern="(.*)*(.*)*(.*)*y|(x+x+)+z"), SECONDS
    )
    assert said.startswith("The search took too long: use a simpler pattern")


async def test_a_search_of_a_kept_output_is_given_up_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_module, "SEARCH_SECONDS", 0.2)
    session = ToolSession(spill=Spill(tmp_path / "outputs"))
    kept = await session.spill.keep("x" * 3000)
    caller = Caller(in_memory().sandbox, session=session)
    said = await asyncio.wait_for(
        caller.refused("grep", pattern="(.*)*(.*)*(.*)*y|(x+x+)+z", path=kept), SECONDS
    )
    assert said.startswith("The search took too long")
    await session.close()


async def test_what_was_found_before_it_took_too_long_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grep_module, "SEARCH_SECONDS", 0.2)
    caller = in_memory({"e": b"y\n", "f": b"x" * 3000 + b"\n"})
    said = await asyncio.wait_for(caller.told("grep", pattern="(.*)*(.*)*(.*)*y|(x+x+)+z"), SECONDS)
    assert said == "e\n1: y\n… the search took too long and was stopped; narrow it for the rest"


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
            said = (await asyncio.wait_for(running, SECONDS)).content
            assert said.startswith("The search took too long")
        if started.exists():
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


# Steps


async def test_a_list_of_steps_is_kept_whole_and_shown() -> None:
    caller = in_memory()
    items = [
        {"text": "look", "state": "done"},
        {"text": "fix\nit", "state": "in_progress"},
        {"text": "test"},
    ]
    assert await caller.told("todo", items=items) == (
        "1 of 3 done:\n[x] look\n[>] fix it\n[ ] test"
    )
    assert caller.session.todo.rendered().startswith("1 of 3 done:")
    assert await caller.told("todo", items=[]) == "The list is empty."
