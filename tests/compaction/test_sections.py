"""A summary's sections: in one order, none missing, and never longer than allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.compaction.request import INSTRUCTIONS
from treadle.compaction.sections import CUT, SECTIONS, Sections, fitted

WHOLE = """\
## Objective
Port the parser.
## Decisions
Keep the old names.
## Work done
- lexer.py is ported
- its tests pass
## Identifiers
- lexer.py: the lexer
## Outstanding
Nothing."""


def test_a_summary_as_it_is_asked_for_comes_out_as_it_is() -> None:
    assert Sections.read(WHOLE).text == WHOLE


@pytest.mark.parametrize(
    "reply",
    [
        "Objective: Port the parser.\nDecisions:\nKeep the old names.",
        "**Objective**\nPort the parser.\n\n**Decisions:** Keep the old names.",
        "1. OBJECTIVE\nPort the parser.\n### decisions:\nKeep the old names.\nOutstanding: none",
        "Sure!\n```markdown\n# Objective\nPort the parser.\n## Decisions\nKeep the old names.\n```",
        "<think>\n## Objective\nHm.\n</think>\n## Objective\nPort the parser.\n"
        "## Decisions\nKeep the old names.\n## Work done\nN/A",
        "| ## Decisions\nKeep the old names.\n## Objective\nPort the parser.\nPort the parser.",
    ],
)
def test_headings_are_known_however_a_model_writes_them(reply: str) -> None:
    assert Sections.read(reply).text == (
        "## Objective\nPort the parser.\n## Decisions\nKeep the old names.\n"
        "## Work done\nNothing.\n## Identifiers\nNothing.\n## Outstanding\nNothing."
    )


def test_a_sentence_that_begins_with_the_name_of_a_section_is_no_heading() -> None:
    reply = "## Work done\nOutstanding work was found.\nDecisions were made by Ann."
    assert set(Sections.read(reply).lines) == {"Work done"}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "HACKED",
        "I cannot help with that.",
        "## Objective\nNone.",
        INSTRUCTIONS.partition("Under")[0],
    ],
)
def test_a_reply_without_a_section_that_says_something_is_empty(reply: str) -> None:
    assert Sections.read(reply).is_empty


def test_a_section_that_was_not_written_at_all_stands_as_it_was() -> None:
    new = Sections.read("## Objective\nPort the printer.\n## Identifiers\nNothing.")
    merged = new.over(Sections.read(WHOLE))
    assert merged.lines["Objective"] == ("Port the printer.",)
    assert merged.lines["Work done"] == ("- lexer.py is ported", "- its tests pass")
    assert merged.lines["Identifiers"] == ()


def test_a_summary_that_is_too_long_loses_the_end_of_its_longest_section() -> None:
    long = Sections.read(WHOLE.replace("- its tests pass", "- it passes\n" + "- and more " * 50))
    short = long.fitted(300)
    assert len(short.text) <= 300
    assert short.lines["Work done"][0] == "- lexer.py is ported"
    assert short.lines["Work done"][-1] == CUT
    assert short.lines["Work done"][-2].startswith("- and more - and more")
    assert {**short.lines, "Work done": ()} == {
        **{name: long.lines.get(name, ()) for name in SECTIONS},
        "Work done": (),
    }
    assert Sections.read(short.text).lines["Work done"][-1] != CUT


@given(
    st.dictionaries(st.sampled_from(SECTIONS), st.lists(st.text("ab c", min_size=1), max_size=9))
)
def test_what_is_fitted_is_short_enough(lines: dict[str, list[str]]) -> None:
    sections = Sections({name: tuple(each) for name, each in lines.items()})
    made = sections.fitted(260)
    assert len(made.text) <= 260
    if len(sections.text) <= 260:
        assert made.text == sections.text


def test_an_earlier_summary_is_fitted_whoever_wrote_it() -> None:
    assert fitted("word " * 100, 50) == ("word " * 10)
    assert fitted(WHOLE, 10_000) == WHOLE
    assert len(fitted(WHOLE + " and on" * 50, 250)) <= 250
