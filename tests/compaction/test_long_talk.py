"""A conversation of 300 turns within a window of 8,000 tokens, through `treadle serve`.

Its provider counts for itself and refuses what is larger or spoilt. What was said once in the
first turns is asked for in the last ones, when nothing but summaries tells of it.
"""

from __future__ import annotations

from pathlib import Path

from support.long_talk import NEEDLES, WINDOW, Held, Provider, held, is_summary, known_in, prompts
from treadle.thread.history import SUMMARY_MARK

TURNS = 300

# What is not the stated approximation is counted only here: most tokenizers find fewer tokens in
# English, none of today's finds so many more.
HEAVIER = 1.6
HEAVIER_TURNS = 80


async def test_300_turns_fit_into_8000_tokens_and_what_was_said_early_is_known_at_the_end(
    tmp_path: Path,
) -> None:
    provider = Provider()
    talk = await held(tmp_path / "notes", TURNS, provider)
    figures = provider.figures
    assert provider.refused == []
    assert provider.overflows == 0 < figures.largest <= WINDOW
    assert len(figures.sizes) == TURNS
    assert figures.answers == NEEDLES
    assert {end["outcome"] for end in figures.ends} == {"completed"}
    assert figures.summaries >= 10
    _assert_only_summaries_know(talk)
    _assert_said_once(talk)
    _assert_linear(talk, figures.sizes)
    # A summary costs less than a turn: the last ten are a few hundred tokens each.
    assert figures.summary_share < 0.1


async def test_a_tokenizer_that_finds_far_more_and_tells_no_usage_is_met_by_overflows(
    tmp_path: Path,
) -> None:
    provider = Provider(HEAVIER, tells_usage=False)
    talk = await held(tmp_path / "notes", HEAVIER_TURNS, provider)
    assert provider.refused == []
    assert provider.overflows > 0
    assert provider.figures.answers == NEEDLES
    assert {end["outcome"] for end in provider.figures.ends} == {"completed"}
    _assert_only_summaries_know(talk)
    _assert_said_once(talk)


def _assert_only_summaries_know(talk: Held) -> None:
    """What is asked for at the end stands in a summary, and in no message that was said."""
    last = next(one for one in reversed(talk.requests) if not is_summary(one))
    summary, *said = last["messages"][1:]
    assert summary["role"] == "user" and summary["content"].startswith(SUMMARY_MARK)
    assert known_in({"messages": [summary]}) == NEEDLES
    answers = {*NEEDLES.values()}
    for message in said:
        assert message["role"] != "user" or not any(one in message["content"] for one in answers)


def _assert_said_once(talk: Held) -> None:
    """The file holds each word once, whatever was compacted: nothing is lost, nothing copied."""
    asked = [one["content"] for one in talk.messages if one["role"] == "user"]
    assert asked == list(prompts(len(asked)))
    calls = [call["id"] for one in talk.messages for call in one.get("tool_calls", ())]
    answered = [one["tool_call_id"] for one in talk.messages if one["role"] == "tool"]
    assert answered == calls and len({*calls}) == len(calls)


def _assert_linear(talk: Held, sizes: list[int]) -> None:
    """The second half adds as much as the first; what tells of compactions stays small."""
    half = sizes[len(sizes) // 2 - 1]
    assert 0.75 < (sizes[-1] - half) / half < 1.25
    # A record holds a summary and what was rewritten, and both lie within the window.
    assert max(talk.record_bytes) < WINDOW * 4
    assert sum(talk.record_bytes) < 0.15 * sizes[-1]
    late = talk.record_bytes[len(talk.record_bytes) // 2 :]
    assert max(late) < 2 * max(talk.record_bytes[: len(talk.record_bytes) // 2])
