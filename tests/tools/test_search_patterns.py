"""What the tool `grep` takes for a pattern, and what one that never ends costs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.calls import SOON_SECONDS, Caller, in_memory
from treadle.tools.search import grep as grep_module
from treadle.tools.search import matching
from treadle.tools.search.matching import Hit, compiled
from treadle.tools.session import ToolSession
from treadle.tools.spill import Spill


def _numbers(*numbers: int) -> list[Hit]:
    return [Hit(number, 0) for number in numbers]


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
    hits = list(compiled(pattern, ignore_case=False).hits(text, time.monotonic() + SOON_SECONDS))
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
    found = compiled(pattern, ignore_case=False).hits(
        "a\n\n a\nb\n", time.monotonic() + SOON_SECONDS
    )
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
        found = list(
            compiled(pattern, ignore_case=False).hits(text, time.monotonic() + SOON_SECONDS)
        )
    finally:
        matching._PIECE_CHARACTERS = before
    wanted = [(number, re.search(pattern, line)) for number, line in enumerate(lines, 1)]
    assert found == [Hit(number, match.start()) for number, match in wanted if match]


async def test_a_pattern_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep_module, "SEARCH_SECONDS", 0.2)
    caller = in_memory({"f": b"x" * 3000 + b"\n"})
    said = await asyncio.wait_for(
        caller.refused("grep", pattern="(.*)*(.*)*(.*)*y|(x+x+)+z"), SOON_SECONDS
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
        caller.refused("grep", pattern="(.*)*(.*)*(.*)*y|(x+x+)+z", path=kept), SOON_SECONDS
    )
    assert said.startswith("The search took too long")
    await session.close()


async def test_what_was_found_before_it_took_too_long_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grep_module, "SEARCH_SECONDS", 0.2)
    caller = in_memory({"e": b"y\n", "f": b"x" * 3000 + b"\n"})
    said = await asyncio.wait_for(
        caller.told("grep", pattern="(.*)*(.*)*(.*)*y|(x+x+)+z"), SOON_SECONDS
    )
    assert said == "e\n1: y\n… the search took too long and was stopped; narrow it for the rest"
