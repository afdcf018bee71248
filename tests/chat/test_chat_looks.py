"""What a chat shows, piece by piece: text made safe, items as lines, the status line, wording."""

from __future__ import annotations

import json
import re
import unicodedata
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from treadle.cli.chat import commands, wording
from treadle.cli.chat.activity import Activity
from treadle.cli.chat.items import Called, Item, Listing, Note, Returned, Said, Status, Thought
from treadle.cli.chat.paint import LEAST_WIDTH, Painter
from treadle.cli.chat.statusline import status_line
from treadle.sanitise import clean, clean_line

ANYTHING = st.text(
    st.one_of(
        st.sampled_from(
            "\x1b[]0;31mJ\x07\x9b\x9d\x00\x08\r\n\t`*_#<>&|-~\u202e\u2066\u2028é麦👩\u200d\u0301"
        ),
        st.characters(),
    )
)
SGR = re.compile(r"\x1b\[[0-9;]*m")


@given(ANYTHING)
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    for shown in (clean(text), clean_line(text)):
        categories = {unicodedata.category(char) for char in shown if char not in "\n\t"}
        assert not categories & {"Cc", "Cs", "Zl", "Zp"}
        assert clean(shown) == shown
        assert not set(shown) & set(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
    assert "\n" not in clean_line(text)


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_text_of_any_script_is_shown_as_it_is(text: str) -> None:
    assert clean(text) == text


ITEMS = st.one_of(
    st.builds(Said, ANYTHING),
    st.builds(Note, ANYTHING),
    st.builds(Listing, ANYTHING),
    st.builds(Thought, ANYTHING, st.just(1.0), st.booleans()),
    st.builds(Called, ANYTHING, st.dictionaries(ANYTHING, ANYTHING, max_size=2)),
    st.builds(Returned, ANYTHING, st.booleans(), ANYTHING),
)
WIDTHS = st.integers(1, 60)


@given(ITEMS, WIDTHS, st.booleans())
def test_an_item_fits_the_width_and_holds_no_escape_but_colours(
    item: Item, width: int, colours: bool
) -> None:
    for line in Painter(colours=colours).item(item, width):
        plain = SGR.sub("", line)
        assert "\x1b" not in plain and clean(plain) == plain
        assert cell_len(plain.replace("\t", "")) <= max(width, LEAST_WIDTH)


@given(ANYTHING, WIDTHS)
def test_a_block_of_an_answer_is_as_safe_whatever_markdown_makes_of_it(
    text: str, width: int
) -> None:
    for line in Painter(colours=True).block(text, width):
        plain = SGR.sub("", line)
        assert "\x1b" not in plain and clean(plain) == plain


@pytest.mark.parametrize(
    "text", ["&#27;[2J", "&#x9b;2J", "[a](http://x/%1b)", "![b](c)", "a\\\x1b"]
)
def test_markdown_cannot_make_an_escape_of_something_else(text: str) -> None:
    shown = "\n".join(Painter(colours=False).block(text, 40))
    assert "\x1b" not in SGR.sub("", shown)
    assert not set(shown) & set(map(chr, range(0x80, 0xA0)))


def test_markdown_that_nests_beyond_reason_is_shown_as_it_is() -> None:
    painter = Painter(colours=False)
    assert "deep" in "".join(painter.block(">" * 500 + " deep", 20))
    assert "deep" in "".join(painter.block("[" * 3000 + "deep", 20))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A <b>tag</b>", "A <b>tag</b>"),
        ("<div>\nblock\n</div>", "<div> block </div>"),
        ("[a word](http://there)", "a word (http://there)"),
        ("![a picture](http://there)", "!a picture (http://there)"),
        ("[1]: http://there", "[1]: http://there"),
    ],
)
def test_tags_and_addresses_are_shown(text: str, shown: str) -> None:
    assert SGR.sub("", " ".join(Painter(colours=False).block(text, 60))) == shown


NAMES = st.text(min_size=1, max_size=30)


@given(NAMES, NAMES, NAMES, st.sampled_from(["", "writing"]), st.booleans(), st.integers(1, 120))
def test_the_status_line_fits_any_width_and_hides_what_goes_on_last(
    agent: str, instance: str, model: str, doing: str, is_turn: bool, width: int
) -> None:
    status = Status(agent, instance, model, doing, since=0.0, is_turn=is_turn)
    shown = "".join(text for _, text in status_line(status, width))
    assert cell_len(shown) <= max(width - 1, 1)
    assert clean_line(shown) == shown.strip()
    if doing and width > 60:
        assert doing in shown


def test_times_and_numbers_are_put_as_a_person_would() -> None:
    assert [wording.duration(each) for each in (0.012, 3.24, 42, 185)] == [
        "12 ms",
        "3.2 s",
        "42 s",
        "3 min 5 s",
    ]
    assert wording.thought("x" * 1204, 3.2) == "thought for 3.2 s, 1,204 characters"
    assert wording.fold("a\nb\nc\nd\n", 2) == ["a", "b", "… 2 more lines"]
    assert wording.fold("a\nb\nc\n", 2) == ["a", "b", "c"]
    assert wording.arguments({"path": "x" * 99})[-1] == "…"
    assert wording.retrying(
        {"attempt": 1, "reason": "model_rate_limited", "retryInSeconds": 2}
    ) == ("model rate limited; attempt 1 failed, trying again in 2.0 s")


def test_what_opening_a_thread_mended_is_told_line_by_line() -> None:
    report = {"quarantinedLines": 1, "tornBytes": 40, "repairedCalls": 2, "interruptedTurn": 7}
    assert wording.mended(report) == [
        "1 damaged line set aside, beside the thread",
        "an unfinished line of 40 bytes set aside, beside the thread",
        "2 tool calls without a result marked as interrupted",
        "turn 7 was interrupted; what had been said is kept",
    ]
    assert wording.mended({"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0}) == []


def test_an_error_says_how_it_is_mended_where_that_is_known() -> None:
    error = {"code": -32803, "message": "no", "data": {"reason": "no_model", "how": "run this"}}
    assert wording.failure(error) == "no [no_model]\nrun this"
    assert wording.failure({"code": -32602, "message": "bad"}) == "bad"
    assert "check the key" in wording.failure({"message": "no", "data": {"reason": "model_auth"}})


def test_tab_completes_as_far_as_it_is_certain() -> None:
    assert commands.complete("/s") == ("/sessions", ["/sessions"])
    assert commands.complete("/op") == ("/open ", ["/open"])
    assert commands.complete("/re") == ("/re", ["/read", "/reasoning", "/rewind"])
    assert commands.complete("/rea") == ("/rea", ["/read", "/reasoning"])
    assert commands.complete("/x") == ("/x", [])
    assert commands.complete("hello") == ("hello", [])
    assert commands.complete("/open x") == ("/open x", [])


def test_json_values_of_arguments_stay_on_one_line() -> None:
    assert (
        wording.arguments({"a": "x\ny", "n": [1]})
        == f"a: {json.dumps('x' + chr(10) + 'y')}, n: [1]"
    )


async def test_a_change_that_comes_before_anybody_could_wait_is_not_missed() -> None:
    face = SimpleNamespace(status=lambda status: None)
    activity = Activity(face, {"agent": "a", "instance": "b"})  # type: ignore[arg-type]  # all it needs
    change = activity.change()
    activity.turn_runs(running=True)
    later = activity.change()
    assert (change.done(), later.done()) == (True, False)
