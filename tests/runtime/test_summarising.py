"""A completion that writes summaries: bounded in time, tries and length, and told to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from treadle.compaction.summariser import NoSummary, Said
from treadle.errors import (
    ContextOverflow,
    ModelError,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelStreamBroken,
    ModelUnreachable,
    NoModel,
)
from treadle.models.completion import CompletionEnv, Delta
from treadle.models.provider import Models
from treadle.models.scripted import Reply, Scripted, ScriptedCall, ScriptedRequest
from treadle.models.spec import EMBEDDED
from treadle.runtime.summarising import CompletionSummariser
from treadle.secrets import hold
from treadle.thread.message import Message, Usage

# A hang ends a test; nothing here takes as long.
BOUND_SECONDS = 20.0


class Waits:
    """Keeps how long it was asked to wait, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def summariser(
    completion: Callable[[CompletionEnv], Awaitable[None]], **options: Any
) -> CompletionSummariser:
    options = {"sleep": Waits(), "chance": lambda: 1.0, **options}
    return CompletionSummariser(completion, 8_000, "a-model", **options)


async def say(writer: CompletionSummariser, max_tokens: int = 100) -> Said:
    async with asyncio.timeout(BOUND_SECONDS):
        return await writer.say("Sum up.", "This.", max_tokens)


async def test_it_says_what_the_model_says_and_what_that_cost() -> None:
    model = Scripted([Reply("In short.", usage=Usage(7, 3))])
    assert await say(summariser(model)) == Said("In short.", Usage(7, 3))
    asked = (Message("system", "Sum up."), Message("user", "This."))
    assert model.requests == [ScriptedRequest(asked, ())]


async def test_what_may_pass_is_tried_again() -> None:
    waits = Waits()
    model = Scripted(
        [
            Reply(error=ModelRateLimited("slow down", retry_after_seconds=7)),
            Reply("Half a", error=ModelStreamBroken("broken")),
            Reply("Whole."),
        ]
    )
    assert await say(summariser(model, sleep=waits)) == Said("Whole.")
    assert waits.seconds == [7, 2.0]


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ModelRateLimited("slow down"), 3),
        (ModelUnreachable("down"), 3),
        (ModelStreamBroken("broken"), 3),
        (ModelRateLimited("in an hour", retry_after_seconds=3600), 1),
        (ModelRateLimited("used up", may_pass=False), 1),
        (ContextOverflow("too long"), 1),
        (ModelRefusedRequest("no"), 1),
    ],
)
async def test_what_does_not_pass_is_told_after_few_tries(error: ModelError, calls: int) -> None:
    model = Scripted([Reply("Some", error=error)] * 5)
    with pytest.raises(type(error)) as failed:
        await say(summariser(model))
    assert failed.value is error
    assert len(model.requests) == calls


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(""), "it said nothing"),
        (Reply(" \n\t "), "it said nothing"),
        (Reply("Let me look.", calls=[ScriptedCall("shell")]), "it called tools"),
        (Reply("I must not.", finish="content_filter"), "it was refused"),
        (Reply("word " * 2_000), "it is far too long"),
    ],
)
async def test_an_answer_that_is_no_text_is_none(reply: Reply, problem: str) -> None:
    with pytest.raises(NoSummary, match=problem):
        await say(summariser(Scripted([reply])))


async def test_what_an_answer_that_is_none_cost_is_told() -> None:
    with pytest.raises(NoSummary) as refused:
        await say(summariser(Scripted([Reply("", usage=Usage(5, 0))])))
    assert refused.value.usage == Usage(5, 0)


async def test_an_answer_that_does_not_end_is_broken_off_as_it_comes() -> None:
    said = 0

    async def endless(env: CompletionEnv) -> None:
        nonlocal said
        while True:
            said += 1
            env.emit("delta", Delta("text", "and "))
            await asyncio.sleep(0)

    with pytest.raises(NoSummary, match="far too long"):
        await say(summariser(endless))
    assert said == 401


async def test_one_that_is_too_slow_is_ended() -> None:
    ended = asyncio.Event()

    async def slow(env: CompletionEnv) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ModelUnreachable, match=r"a-model did not sum up in"):
        await say(summariser(slow, seconds=0.01))
    assert ended.is_set()


async def test_one_that_does_not_mind_being_cancelled_holds_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.runtime.summarising.STOP_SECONDS", 0.01)
    may_end = asyncio.Event()

    async def stubborn(env: CompletionEnv) -> None:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        raise ZeroDivisionError

    writer = summariser(stubborn, seconds=0.01)
    with pytest.raises(ModelUnreachable):
        await say(writer)
    left = list(writer._running)
    assert len(left) == 1
    may_end.set()
    await asyncio.wait(left, timeout=BOUND_SECONDS)
    assert not writer._running


async def test_it_is_cancelled_with_its_caller() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def slow(env: CompletionEnv) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    work = asyncio.create_task(say(summariser(slow)))
    async with asyncio.timeout(BOUND_SECONDS):
        await began.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert ended.is_set()


async def test_a_completion_that_cancels_itself_cancels_nobody_else() -> None:
    async def gone(env: CompletionEnv) -> None:
        raise asyncio.CancelledError

    with pytest.raises(ModelUnreachable, match="a-model was stopped before it had answered"):
        await say(summariser(gone))


async def test_where_no_model_is_there_that_is_told_with_what_to_do(tmp_path: Path) -> None:
    models = Models(tmp_path)
    with pytest.raises(NoModel) as missing:
        await say(summariser(models.completion(EMBEDDED)))
    assert missing.value.message.startswith(
        "there is no model to sum up with: no model is configured, and the embedded one is not on "
        "this machine yet; run `treadle model pull` ("
    )
    assert missing.value.data["how"].startswith("run `treadle model pull`")
    await models.close()


async def test_a_completion_that_breaks_in_its_own_way_is_an_error_of_ours() -> None:
    async def broken(env: CompletionEnv) -> None:
        raise ZeroDivisionError

    with pytest.raises(ModelRefusedRequest, match="log says how"):
        await say(summariser(broken))


async def test_neither_what_is_asked_nor_what_is_said_holds_a_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUMMARY_KEY", "very-secret-value")
    hold("SUMMARY_KEY")
    model = Scripted([Reply(echo=True)])
    said = await summariser(model).say("Sum up.", "It is very-secret-value.", 100)
    assert said.text == "It is [secret SUMMARY_KEY]."
    assert model.requests[0].messages[1].text == said.text
