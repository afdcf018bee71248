"""Which reply is a summary, and what is mended of one that is nearly right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from treadle.compaction.fence import fenced, signed
from treadle.compaction.judging import judged
from treadle.compaction.sections import CUT, Sections
from treadle.compaction.summariser import NoSummary
from treadle.thread.message import Message

SAID = (
    "The roof leaks where the chimney meets it, and the rain of last week came down to the "
    "second floor; the neighbour has a ladder that is long enough, but he wants it back on "
    "Friday at the latest. Ann says that the tiles are the same as those of the church, which "
    "were made in a village that is not on any map, and that Ben still has forty of them in his "
    "cellar. If nothing is done before the winter, the beams will rot, and then all of it comes "
    "down, as it did in the year of the great storm, when nobody was at home to see it happen."
)
CHUNK = [*signed(f"user: {SAID}"), *signed("assistant: Yes.")]


def judge(reply: str, earlier: str = "", persons: Sequence[Message] = (), most: int = 2_000) -> str:
    return judged(reply, chunk=CHUNK, persons=persons, earlier=earlier, most=most)


def problem_of(reply: str) -> str:
    with pytest.raises(NoSummary) as refused:
        judge(reply)
    return refused.value.message


def test_a_reply_in_its_own_words_is_taken() -> None:
    reply = "## Objective\nMend the roof with Ben's tiles before the winter."
    assert Sections.read(judge(reply)).lines["Objective"] == (
        "Mend the roof with Ben's tiles before the winter.",
    )


@pytest.mark.parametrize(
    "reply",
    [
        f"## Work done\n{SAID}",
        "## Work done\n" + SAID.replace(", ", ",\n  "),
        f"## Objective\nMend the roof.\n## Decisions\nNone.\n## Outstanding\n- user: {SAID}",
        f"## Objective\n{fenced('conversation', ['> user: Hi.'])}",
        "Objective: x\n</earlier 0123456789ab>",
    ],
)
def test_a_reply_that_repeats_what_it_was_given_is_refused(reply: str) -> None:
    assert problem_of(reply) == "it repeats the conversation instead of summing it up"


def test_a_quotation_is_no_repetition() -> None:
    assert SAID[:300] in judge(f"## Objective\n{SAID[:300]}")
    own = "That was talked of at length, and in the end everybody went home rather content. " * 9
    assert judge(f"## Objective\n{SAID}\n## Work done\n{own}")


def test_identifiers_are_copied_as_they_are_to_be() -> None:
    assert SAID in judge(f"## Objective\nMend it.\n## Identifiers\n{SAID}")


def test_what_comes_back_fits_into_what_is_allowed_too() -> None:
    persons = [Message("user", f"Part {n} is number PART-{n:04}.") for n in range(60)]
    reply = "## Objective\nBuild it.\n## Work done\n" + "\n".join(f"- step {n}" for n in range(99))
    text = judge(reply, persons=persons, most=900)
    named = Sections.read(text).lines["Identifiers"]
    assert len(text) <= 900 and CUT in text.splitlines()
    assert named == tuple(
        f"- Part {n} is number PART-{n:04}." for n in (0, 1, 2, 3, 4, 56, 57, 58, 59)
    )


def test_what_a_reply_leaves_out_altogether_stands_as_it_was() -> None:
    earlier = judge(
        "## Objective\nMend the roof.\n## Decisions\nNew tiles.\n## Work done\nA start."
    )
    cut_short = judge("## Objective\nMend all of it.\n## Decisions\nNothing.", earlier=earlier)
    lines = Sections.read(cut_short).lines
    assert lines["Objective"] == ("Mend all of it.",)
    assert lines["Decisions"] == () and lines["Work done"] == ("A start.",)


def test_half_characters_of_a_reply_are_mended() -> None:
    judge("## Objective\nMend \ud800 it.").encode()


@pytest.mark.parametrize(
    "piece", [" ", "#", "# ", "> ", "| ", "-", "- ", "(", "*", "a\n", "a_", "`", "/a", "1."]
)
def test_no_reply_takes_long_to_look_at(piece: str) -> None:
    # With a pattern that goes over each letter once for each, this would take minutes.
    judge("## Objective\nBuild it.\n" + (piece * 200_000)[:190_000] + "x", most=64_000)
