"""The tools `glob` and `grep`, as a model meets them."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.calls import SOON_SECONDS, Caller, in_memory, on_disk
from treadle.sandbox.local import LocalSandbox
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.search.globbing import chosen
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
    assert time.monotonic() - began < SOON_SECONDS


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
