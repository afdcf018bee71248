"""A completion that writes summaries, beside the conversation that it sums up.

Owns that each answer ends within a bound, that what may pass is tried again, and that nothing of
it enters a thread or is told to watchers: what it cost is handed on. Refuses to know what is asked
and whether the answer is any good (`compaction`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from treadle.compaction.counting import CHARACTERS_OF_TOKEN
from treadle.compaction.summariser import NoSummary, Said
from treadle.errors import (
    ModelError,
    ModelRefusedRequest,
    ModelUnreachable,
    NoModel,
    TreadleError,
)
from treadle.models.completion import Completion, Delta, ToolSpec
from treadle.secrets import known
from treadle.thread.blobs import Blobs
from treadle.thread.message import Message, Usage, clean
from treadle.thread.records import StopReason

logger = logging.getLogger(__name__)

# For one answer, with the waits between its tries: a person waits for the turn behind it. A small
# model on a slow machine writes a page within it.
SUMMARY_SECONDS = 180.0

# A model call that is cancelled keeps nothing; one that stays longer is left to its own time-out.
STOP_SECONDS = 1.0

# Fewer than a turn makes: where a summary fails, there is a step that needs no model.
MAX_RETRIES = 2

# The first wait where the endpoint names none; the one after it is twice as long.
FIRST_WAIT_SECONDS = 1.0

# An endpoint that asks for more is not waited for.
MAX_RETRY_AFTER_SECONDS = 20.0

# Few endpoints are asked for a bound in the same words, so an answer that is so many times longer
# than wanted is broken off.
TIMES_TOO_LONG = 4


class CompletionSummariser:
    """Writes texts with a completion; see `compaction.summariser.Summariser`.

    Args:
        completion: the model.
        window: how many tokens it takes and says, together.
        model: its name, for the log and for errors.
        seconds: how long one text may take.
        sleep: waits so many seconds. Contract: lets a cancel through.
        chance: gives a number from 0 to 1, which spreads the waits of those that failed together.
    """

    def __init__(
        self,
        completion: Completion,
        window: int,
        model: str = "the summariser",
        *,
        seconds: float = SUMMARY_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.window = window
        self._completion = completion
        self._model = model
        self._seconds = seconds
        self._sleep = sleep
        self._chance = chance
        # With those that did not end when they were told to, so that none is lost on its way.
        self._running: set[asyncio.Task[Said]] = set()

    async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
        """Return the model's text; see the seam.

        Raises:
            NoSummary: the answer is no text, calls tools, was refused or does not end.
            NoModel: none is there.
            ModelError: the model failed, or has not answered in time.
        """
        secrets = known()
        asked = (
            Message("system", secrets.redact(clean(instructions))),
            Message("user", secrets.redact(clean(text))),
        )
        most = max_tokens * CHARACTERS_OF_TOKEN * TIMES_TOO_LONG
        work = asyncio.create_task(self._tried(asked, most), name="summarising")
        self._running.add(work)
        work.add_done_callback(self._ended)
        try:
            # Not `await work`: what stays when it is told to end must not hold the caller too.
            await asyncio.wait({work}, timeout=self._seconds)
            in_time = work.done()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=STOP_SECONDS)
        if not in_time:
            raise ModelUnreachable(f"{self._model} did not sum up in {self._seconds:g} seconds")
        if work.cancelled():
            raise ModelUnreachable(f"{self._model} was stopped before it had answered")
        said = work.result()
        logger.info("%s wrote %d characters of a summary", self._model, len(said.text))
        return said

    async def _tried(self, asked: Sequence[Message], most: int) -> Said:
        """Make the model call, again where that may help.

        Raises:
            TreadleError: as above.
        """
        attempt = 1
        while True:
            try:
                return await self._once(asked, most)
            except ModelError as error:
                wait_seconds = self._wait_seconds(error, attempt)
                if wait_seconds is None:
                    raise
            await self._sleep(wait_seconds)
            attempt += 1

    async def _once(self, asked: Sequence[Message], most: int) -> Said:
        env = _Aside(asked, most)
        try:
            await self._completion(env)
        except NoModel as error:
            # What to do about it is all that helps, and a strategy's problem is one text.
            how = error.data.get("how", "")
            told = f"there is no model to sum up with: {error.message}; {how}"
            raise NoModel(told, how=how) from error
        except TreadleError:
            raise
        except Exception as error:
            logger.exception("a model failed in a way nobody foresaw")
            told = f"{self._model} failed in a way that nobody foresaw; the log says how"
            raise ModelRefusedRequest(told) from error
        if problem := env.problem():
            raise NoSummary(problem, env.usage)
        assert env.answer is not None
        return Said(known().redact(clean(env.answer.text)), env.usage)

    def _wait_seconds(self, error: ModelError, attempt: int) -> float | None:
        """Return how long to wait before the next attempt; None where there is to be none."""
        asked = error.asked_seconds
        if attempt > MAX_RETRIES or not error.may_pass or asked > MAX_RETRY_AFTER_SECONDS:
            return None
        # Half of it at least, as in a turn's own calls.
        return asked or FIRST_WAIT_SECONDS * 2 ** (attempt - 1) * (0.5 + self._chance() / 2)

    def _ended(self, work: asyncio.Task[Said]) -> None:
        self._running.discard(work)
        if not work.cancelled():
            # Asked for, so that nobody is told of an error that nobody waits for any more.
            work.exception()


@dataclass(slots=True)
class _Aside:
    """A `CompletionEnv` of which nothing is kept but the answer and what it cost.

    Args:
        messages: what is asked.
        most: how many characters the answer may have before it is broken off.
    """

    messages: Sequence[Message]
    most: int
    tools: Sequence[ToolSpec] = ()
    should_exit: bool = False
    stop_reason: StopReason | None = None
    answer: Message | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def blobs(self) -> Blobs:
        """Nothing lies beside a text."""
        return Blobs(None)

    async def append(self, message: Message) -> None:
        """Keep the answer."""
        self.answer = message
        self.usage += message.usage or Usage()

    def emit(self, name: str, payload: object) -> None:
        """Tell nobody; break off an answer that does not end.

        Raises:
            NoSummary: it does not.
        """
        if isinstance(payload, Delta) and payload.kind == "text":
            self.most -= len(payload.text)
            if self.most < 0:
                raise NoSummary("it is far too long")

    def problem(self) -> str:
        """Say why the answer is no text to go on with; nothing where it is one."""
        if self.answer is None or self.answer.role != "assistant":
            return "it said nothing"
        if self.answer.partial:
            return "it was broken off"
        if self.answer.tool_calls:
            return "it called tools, and there are none"
        if self.stop_reason == "refusal":
            return "it was refused"
        return "" if self.answer.text.strip() else "it said nothing"
