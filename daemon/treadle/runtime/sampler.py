"""The running turn's model, asked by an MCP server something beside the conversation.

Owns that each answer is one of the turn's model calls, that its tokens are the turn's, and that
none outlives the turn. Nothing of it enters the thread or is told to watchers: a line in the log
says that it happened. Refuses to know servers, and whether one may ask (`mcp`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from treadle.errors import TreadleError
from treadle.models.completion import Completion, ToolSpec
from treadle.runtime.outbox import Pair
from treadle.runtime.shown import shown
from treadle.secrets import known
from treadle.thread.blobs import Blobs
from treadle.thread.message import Message, Usage, clean
from treadle.thread.records import StopReason
from treadle.tools.sampling import CannotSample, Said
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone
from treadle.turn.max_iterations import ModelCalls

logger = logging.getLogger(__name__)

# A server asks within a call of a tool, which ends after as long where nobody says otherwise.
SAMPLE_SECONDS = 120.0

# A model call that is cancelled keeps nothing; one that stays longer is left to its own time-out.
STOP_SECONDS = 1.0

# Some 50,000 tokens: a long document, and less than most models' windows.
INPUT_CHARACTERS = 200_000

# Few endpoints are asked for a bound in the same words, so the text is cut instead; in English
# so many letters are a token.
CHARACTERS_OF_TOKEN = 4
OUTPUT_CHARACTERS = 64 << 10


class TurnSampler:
    """Answers servers during one turn; see `tools.sampling.Sampler`.

    Args:
        completion: the session's model.
        calls: the model calls that the turn has left; the last of them stays the turn's own,
            which has yet to read what the server's tool says.
        model: the model's name, where its answers do not say it.
        pair: whose session, for the log.
        agent: runs the turn.
    """

    def __init__(
        self, completion: Completion, calls: ModelCalls, model: str, pair: Pair, agent: Agent
    ) -> None:
        self._completion = completion
        self._calls = ModelCalls(calls.left, within=calls)
        self._model = model
        self._pair = pair
        self._turn: Env | None = None
        self._running: set[asyncio.Task[Message]] = set()
        agent.on("turn", self._begin).on("done", self._end)

    async def sample(
        self, messages: tuple[Said, ...], system: str, max_tokens: int
    ) -> tuple[str, str]:
        """Return the model's text, and its name; see the seam.

        Raises:
            CannotSample: no turn runs, none of its calls are left, or the model failed.
        """
        asked = _conversation(messages, system)
        if self._turn is None:
            raise CannotSample("no turn runs that could ask its model")
        if not self._calls.take():
            raise CannotSample("the turn has no model calls left for this")
        answer = await self._answer(self._turn, asked)
        text = known().redact(clean(answer.text))
        logger.info(
            "%s: the model answered an MCP server: %d characters to %d messages",
            shown(self._pair),
            len(text),
            len(messages),
        )
        return _cut(text, max_tokens), answer.model or self._model

    def _begin(self, env: Env, _: object) -> None:
        self._turn = env

    def _end(self, _: Env, __: TurnDone) -> None:
        self._turn = None
        for work in self._running:
            work.cancel()

    async def _answer(self, turn: Env, asked: Sequence[Message]) -> Message:
        """Make the model call, in a task that ends with the turn and with the caller.

        Raises:
            CannotSample: the turn ended, or the model failed.
        """
        work = asyncio.create_task(self._call(turn, asked), name="sampling")
        self._running.add(work)
        try:
            # Not `await work`: what ends with its turn must not seem to cancel the server's task.
            await asyncio.wait({work})
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait({work}, timeout=STOP_SECONDS)
            raise
        finally:
            self._running.discard(work)
        if work.cancelled():
            raise CannotSample("the turn has ended")
        return work.result()

    async def _call(self, turn: Env, asked: Sequence[Message]) -> Message:
        env = _Aside(asked, turn)
        try:
            async with asyncio.timeout(SAMPLE_SECONDS):
                await self._completion(env)
        except TreadleError as error:
            raise CannotSample(f"the model failed: {known().redact(error.message)}") from error
        except TimeoutError:
            told = f"the model has not answered within {SAMPLE_SECONDS:.0f} seconds"
            raise CannotSample(told) from None
        except Exception as error:
            logger.exception("a model failed in a way nobody foresaw")
            raise CannotSample("the model failed; the daemon's log says how") from error
        if env.answer is None or not env.answer.text:
            raise CannotSample("the model said nothing")
        return env.answer


@dataclass(slots=True)
class _Aside:
    """A `CompletionEnv` of which nothing is kept but the answer, and its cost in the turn's."""

    messages: Sequence[Message]
    turn: Env
    tools: Sequence[ToolSpec] = ()
    should_exit: bool = False
    stop_reason: StopReason | None = None
    answer: Message | None = None

    @property
    def blobs(self) -> Blobs:
        """Nothing lies beside what a server says."""
        return Blobs(None)

    async def append(self, message: Message) -> None:
        """Keep the answer."""
        self.answer = message
        self.turn.beside += message.usage or Usage()

    def emit(self, name: str, payload: object) -> None:
        """Tell nobody: it is no part of the conversation."""


def _conversation(messages: tuple[Said, ...], system: str) -> list[Message]:
    """Return what the model is told.

    Raises:
        CannotSample: it is nothing, or too much.
    """
    if sum(len(text) for _, text in messages) + len(system) > INPUT_CHARACTERS:
        raise CannotSample(f"that is more than {INPUT_CHARACTERS:,} characters")
    if not messages or messages[-1][0] != "user" or not messages[-1][1].strip():
        raise CannotSample("the last message is to be a user's, and to say something")
    secrets = known()
    told = [Message(role, secrets.redact(text)) for role, text in messages]
    return [Message("system", secrets.redact(system)), *told] if system.strip() else told


def _cut(text: str, max_tokens: int) -> str:
    most = OUTPUT_CHARACTERS
    if max_tokens > 0:
        most = min(most, max_tokens * CHARACTERS_OF_TOKEN)
    return text[:most]
