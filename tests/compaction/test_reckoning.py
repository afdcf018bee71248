"""What a provider counted sets the approximation right, as long as it still holds."""

from __future__ import annotations

import pytest

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.reckoning import MOST_CHARACTERS, Reckoning, Tally
from treadle.compaction.reckoning import reckon as reckon_tally
from treadle.thread.history import Placed
from treadle.thread.message import Message, Usage

ASKED = Message("user", "a" * 400)
ANSWERED = Message("assistant", "b" * 400, usage=Usage(900, 100))
LATER = Message("user", "c" * 40)


def conversation(*messages: Message) -> Conversation:
    return Conversation(tuple(Placed(one, at) for at, one in enumerate(messages)), {})


def reckon(
    said: Conversation, through: int, overhead: int, window: int, counted: int = 0
) -> Reckoning:
    tally = Tally().then(said.entries, said.sizes, through)
    return reckon_tally(tally, overhead, window, counted)


def test_without_a_report_the_approximation_counts_with_what_is_sent_beside() -> None:
    said = conversation(ASKED, LATER)
    found = reckon(said, -1, 50, 10_000)
    assert found == Reckoning(tokens_of([ASKED, LATER]) + 50, 50, 1.0, 10_000)
    assert found.total(said) == found.tokens


def test_a_report_and_what_came_since_are_the_count() -> None:
    said = conversation(ASKED, ANSWERED, LATER)
    found = reckon(said, -1, 50, 10_000)
    assert found.tokens == 900 + 100 + 15
    # What is left of it after a compaction is measured in the same tokens.
    assert abs(found.total(said) - found.tokens) <= 2
    assert found.overhead == int(50 * found.factor)


def test_a_report_from_before_a_compaction_counts_no_more() -> None:
    said = conversation(ASKED, ANSWERED, LATER)
    assert reckon(said, 1, 0, 10_000).tokens == tokens_of([ASKED, ANSWERED, LATER])
    assert reckon(said, 0, 0, 10_000).tokens == 1_015


@pytest.mark.parametrize("usage", [Usage(0, 100), Usage(1, 1), Usage(20_000, 1), Usage(1, 10**12)])
def test_a_report_of_nothing_sent_is_none_nor_is_an_absurd_one(usage: Usage) -> None:
    answered = Message("assistant", "b" * 400, usage=usage)
    said = conversation(ASKED, answered, LATER)
    plain = tokens_of([ASKED, answered, LATER]) + 50
    assert reckon(said, -1, 50, 10_000) == Reckoning(plain, 50, 1.0, 10_000)


@pytest.mark.parametrize("counted", [1, 10**12])
def test_an_absurd_count_of_a_refused_request_is_none(counted: int) -> None:
    said = conversation(ASKED, LATER)
    assert reckon(said, -1, 50, 10_000, counted) == reckon(said, -1, 50, 10_000)


def test_what_a_provider_counted_of_a_refused_request_is_the_count() -> None:
    said = conversation(ASKED, ANSWERED, LATER)
    found = reckon(said, -1, 50, 10_000, counted=2_000)
    assert found.tokens == 2_000 and abs(found.total(said) - 2_000) <= 2


def test_more_characters_than_a_request_may_have_fill_a_window_whatever_its_tokens() -> None:
    # Reported as if sixteen characters were a token, so that tokens alone would never tell.
    text = Message("user", " " * MOST_CHARACTERS)
    told = Message("assistant", "so", usage=Usage(MOST_CHARACTERS // 16))
    window = 4_000_000
    found = reckon(conversation(text, told), -1, 0, window)
    assert found.tokens >= window
    assert found.measure(conversation(text)) >= window
