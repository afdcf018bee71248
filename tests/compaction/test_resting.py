"""A summariser that fails rests, and one deadline holds for all that one summary takes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import CompactionEnv, Strategy, rest
from treadle.compaction.resting import LONG_REST_SECONDS, REST_SECONDS, Rest, rest_seconds
from treadle.compaction.sliding_window import SlidingWindow
from treadle.compaction.summariser import NoSummary, Said
from treadle.compaction.summarize import Summarize
from treadle.errors import (
    ContextOverflow,
    ModelAuth,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelStreamBroken,
    ModelUnreachable,
    TreadleError,
)
from treadle.thread.history import Placed
from treadle.thread.message import Message

GOOD = "## Objective\nTalk.\n## Work done\nTalked."


class Answers:
    """A summariser that says or raises one thing after the other, the last one for ever."""

    window = 8_000

    def __init__(self, *answers: TreadleError | str) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, TreadleError):
            raise answer
        return Said(answer)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def env(*, is_asked_for: bool = False) -> CompactionEnv:
    said = [
        Message(role, f"{number} " + "much was said " * 60)
        for number in range(6)
        for role in ("user", "assistant")
    ]
    conversation = Conversation.of([Placed(one, at) for at, one in enumerate(said)], None)
    return CompactionEnv(
        conversation,
        900,
        lambda made: tokens_of(entry.message for entry in made.entries),
        is_asked_for=is_asked_for,
    )


async def compacted(ladder: Strategy, *, is_asked_for: bool = False) -> CompactionEnv:
    await ladder(made := env(is_asked_for=is_asked_for))
    return made


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ModelAuth("no"), LONG_REST_SECONDS),
        (ModelRateLimited("slow down"), REST_SECONDS),
        (ModelRateLimited("slow down", retry_after_seconds=7.0), 7.0),
        (ModelRateLimited("in a day", retry_after_seconds=86_400.0), 900.0),
        (ModelRateLimited("used up", may_pass=False), LONG_REST_SECONDS),
        (ModelUnreachable("gone"), REST_SECONDS),
        (ModelStreamBroken("broken"), REST_SECONDS),
        # What was asked was wrong, or what was said; another conversation may do better.
        (ModelRefusedRequest("what?"), 0.0),
        (ContextOverflow("too long"), 0.0),
        (NoSummary("it said nothing"), 0.0),
    ],
)
def test_how_long_it_rests_depends_on_how_it_failed(error: TreadleError, seconds: float) -> None:
    assert rest_seconds(error) == seconds


@pytest.mark.parametrize("asked", [float("nan"), "soon", True, -5.0])
def test_a_wait_that_is_none_is_not_believed(asked: object) -> None:
    error = ModelRateLimited("slow down")
    error.data["retry_after_seconds"] = asked
    assert rest_seconds(error) == REST_SECONDS


async def test_while_it_rests_the_next_strategy_goes_on_without_a_say() -> None:
    clock, answers = Clock(), Answers(ModelUnreachable("gone"), GOOD)
    ladder = Summarize(SlidingWindow(rest), summariser=answers, rest=Rest(clock))
    first = await compacted(ladder)
    assert (answers.asked, [one.problem for one in first.attempts]) == (1, ["gone", ""])
    clock.now += 59.0
    second = await compacted(ladder)
    assert answers.asked == 1 and not second.is_over
    assert second.attempts[0].problem == (
        "not asked, for it failed a short while ago (gone); it is asked again in 1 s, or "
        "at once by session/compact"
    )
    clock.now += 1.0
    third = await compacted(ladder)
    assert answers.asked == 2 and third.conversation.summary.startswith("## Objective\nTalk.")


async def test_whoever_asks_for_a_summary_has_it_tried_and_ends_the_rest() -> None:
    answers = Answers(ModelAuth("no"), GOOD)
    ladder = Summarize(rest, summariser=answers, rest=Rest(Clock()))
    await compacted(ladder)
    assert (await compacted(ladder, is_asked_for=True)).conversation.summary
    assert (await compacted(ladder)).conversation.summary
    assert answers.asked == 3


async def test_a_round_that_fails_later_lets_the_good_ones_stand_and_it_rests() -> None:
    answers = Answers(GOOD, ModelUnreachable("gone"))
    answers.window = 1_600
    ladder = Summarize(rest, summariser=answers, rest=Rest(Clock()))
    first = await compacted(ladder)
    assert first.conversation.summary and answers.asked == 2
    assert (await compacted(ladder)).attempts[0].problem.startswith("not asked, for it failed")
    assert answers.asked == 2


async def test_one_deadline_holds_for_all_that_a_summary_asks() -> None:
    class Silent(Answers):
        async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
            await super().say(instructions, text, max_tokens)
            if self.asked > 2:
                await asyncio.Event().wait()
            return Said("no record")  # which is asked for again

    answers = Silent("-")
    ladder = Summarize(SlidingWindow(rest), summariser=answers, rest=Rest(Clock()), seconds=0.05)
    made = await compacted(ladder)
    assert [one.problem for one in made.attempts] == [
        "the summary was not finished within 0.05 seconds",
        "",
    ]
    assert answers.asked == 3 and not made.is_over
    await compacted(ladder)
    assert answers.asked == 3


async def test_a_time_out_of_somebody_elses_is_not_taken_for_the_deadline() -> None:
    class Late(Answers):
        async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
            raise TimeoutError("of its own")

    made = await compacted(Summarize(SlidingWindow(rest), summariser=Late("-")))
    assert made.attempts[0].problem == "TimeoutError: of its own"


class Broken(Strategy):
    """A strategy of a person's that changes what it must not, and raises."""

    name = "mine"
    error: BaseException = ValueError("a\nslip")

    async def work(self, env: CompactionEnv) -> Conversation | None:
        env.conversation = env.conversation.without({0})
        raise self.error


async def test_whatever_a_strategy_raises_it_has_declined_and_the_next_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Conversation] = []

    async def then(env: CompactionEnv) -> None:
        seen.append(env.conversation)
        await SlidingWindow(rest)(env)

    with caplog.at_level(logging.WARNING):
        made = await compacted(Broken(then))
    assert seen == [env().conversation] and not made.is_over
    assert [(one.name, one.problem) for one in made.attempts] == [
        ("mine", "ValueError: a slip"),
        ("sliding_window", ""),
    ]
    assert "the strategy mine did nothing: ValueError: a slip" in caplog.text


async def test_a_strategy_that_returns_no_conversation_has_declined() -> None:
    class Odd(Strategy):
        name = "odd"

        async def work(self, env: CompactionEnv) -> Conversation | None:
            return "less"  # type: ignore[return-value] # which is the mistake

    made = await compacted(Odd(SlidingWindow(rest)))
    assert [one.name for one in made.attempts] == ["odd", "sliding_window"]
    assert made.attempts[0].problem.startswith("AttributeError: ")


async def test_a_cancel_passes_through_a_strategy() -> None:
    class Cancelled(Broken):
        error = asyncio.CancelledError()

    made = env()
    with pytest.raises(asyncio.CancelledError):
        await Cancelled(rest)(made)
    assert made.attempts == []
