"""The ladder: strategies as layers, cheapest or most faithful first; the order is the policy.

    CompactionEnv ─▶ strategy ─▶ strategy ─▶ … ─▶ rest

A strategy is asked only while the conversation is over the target, its work is taken only where
that is strictly smaller, and it asks the next one only if it is still over. Owns that rule, and
the ladders that have names. Refuses to know what a strategy does.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle.compaction.conversation import Conversation, Measure
from treadle.errors import TreadleError
from treadle.secrets import known
from treadle.stack.stack import App
from treadle.thread.message import Usage, clean

logger = logging.getLogger(__name__)

# Enough of an exception's own words to recognise it.
SAID_CHARACTERS = 300

LadderName: TypeAlias = Literal["faithful", "cheapest"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a strategy came to: tokens before and after; the same where it was declined.

    `problem` says why it could not, where something failed.
    """

    name: str
    before: int
    after: int
    problem: str = ""


@dataclass(slots=True)
class CompactionEnv:
    """One compaction on its way.

    Attributes:
        conversation: as it is now; a strategy changes it by `take`.
        target: how many tokens it is to have at most.
        measure: counts them.
        instructions: what whoever asked for it wants kept; empty where nobody did.
        usage: what its model calls cost.
        attempts: what each strategy that was asked came to.
        limit: beyond how many tokens even what is never given up is cut; the target where that
            is more.
        is_asked_for: a person asks for this one, and waits for it.
    """

    conversation: Conversation
    target: int
    measure: Measure
    instructions: str = ""
    usage: Usage = field(default_factory=Usage)
    attempts: list[Attempt] = field(default_factory=list)
    limit: int = 0
    is_asked_for: bool = False

    @property
    def tokens(self) -> int:
        """How large the conversation is now."""
        return self.measure(self.conversation)

    @property
    def is_over(self) -> bool:
        """Whether there is something left to do."""
        return self.tokens > self.target

    def take(self, name: str, made: Conversation | None, problem: str = "") -> None:
        """Take a strategy's work where it is strictly smaller, and note what it came to.

        Args:
            name: the strategy's.
            made: what it made; None where it made nothing.
            problem: what failed.
        """
        before = self.tokens
        after = self.measure(made) if made is not None else before
        if made is not None and after < before:
            self.conversation = made
        else:
            after = before
        self.attempts.append(Attempt(name, before, after, problem))


Work: TypeAlias = Callable[[CompactionEnv], Awaitable[Conversation | None]]
"""Makes a smaller conversation of an env's, or None where it cannot.

Contract: changes nothing but `usage`; raises errors of `treadle.errors` where something fails.
Whatever else one of somebody's own raises is taken for such an error.
"""


class Strategy:
    """A layer of a ladder; a subclass says its `name` and does its `work`.

    Args:
        app: the rest of the ladder.
    """

    name = ""

    def __init__(self, app: App[CompactionEnv]) -> None:
        self._app = app

    async def __call__(self, env: CompactionEnv) -> None:
        """Do its work if the conversation is over, then ask the next if it still is.

        A strategy that fails leaves the conversation as it was, and the next one is asked.
        """
        if not env.is_over:
            return
        before = env.conversation
        try:
            env.take(self.name, await self.work(env))
        except TreadleError as error:
            self._decline(env, before, error.message)
        except Exception as error:
            # It may be anybody's, and what it raises is no reason to ask nobody else.
            self._decline(env, before, _in_words(error), error)
        if env.is_over:
            await self._app(env)

    def _decline(
        self,
        env: CompactionEnv,
        before: Conversation,
        problem: str,
        unforeseen: Exception | None = None,
    ) -> None:
        """Have the conversation as it was, and note why."""
        problem = known().redact(problem)
        logger.warning("the strategy %s did nothing: %s", self.name, problem, exc_info=unforeseen)
        env.conversation = before
        env.take(self.name, None, problem)

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Make a smaller conversation, or none."""
        raise NotImplementedError


def _in_words(error: Exception) -> str:
    """Tell what somebody's own code raised, on one line."""
    try:
        # Before it is cut: half a secret is not recognised any more.
        said = " ".join(clean(known().redact(str(error))).split())[:SAID_CHARACTERS]
    except Exception:
        said = ""
    return ": ".join(filter(None, (type(error).__name__, said)))


def fewest(count: int, fits: Callable[[int], bool]) -> int:
    """Return the fewest of a number of things with which something fits; all where it never does.

    Asked a few times however many they are, for measuring costs.

    Args:
        count: how many there are; at least one.
        fits: tells it of a number from 1 on. Contract: what fits with some fits with more.
    """
    return min(bisect_left(range(1, count + 1), True, key=fits) + 1, count)


async def rest(env: CompactionEnv) -> None:
    """Be the ladder's last rung: whatever is over then stays so."""
