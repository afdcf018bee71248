"""One session's compactions: when one is due, what it is to reach, and that it counts or does not.

    reckon ─▶ ladder ─▶ record in the thread ─▶ told

Owns the commit point, which is the thread's record: what fails or is cancelled before it leaves
everything as it was, and a cancel after it changes nothing of the compaction. Refuses to know
turns, and what a strategy does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias
from uuid import uuid4

import msgspec

from treadle.compaction.conversation import Conversation
from treadle.compaction.gauge import FindCounter, Gauge
from treadle.compaction.ladder import CompactionEnv
from treadle.compaction.reckoning import Reckoning, reckon
from treadle.compaction.settings import CompactionSettings
from treadle.compaction.told import Compacted, Compacting, CompactionOutcome, Trigger
from treadle.errors import ContextOverflow, TreadleError
from treadle.stack.stack import App
from treadle.thread.history import Placed
from treadle.thread.message import Usage
from treadle.thread.records import CompactedRecord, Tokens
from treadle.thread.thread import Thread

logger = logging.getLogger(__name__)

# A conversation that a compaction could not bring below where it is due grows by this part of the
# window before the next one: by the time that its window is full, that makes three.
COOL_DOWN = 0.1

# How many tokens one of the approximation may be in text that is not made to be odd: Chinese has up
# to 5, data in base64 3. A tokenizer is not looked for while so many would fit.
FOREIGN = 5

Tell: TypeAlias = Callable[[Compacting | Compacted], None]
"""Hears of a compaction. Contract: neither raises nor blocks."""


class Compactor:
    """Compacts the thread of one session; keep it as long as that, for it remembers.

    Args:
        window: the model's window in tokens.
        ladder: what goes, and in which order.
        settings: when it is done and how far.
        tell: hears of every compaction, whoever asked for it: `Compacting`, then exactly one
            `Compacted` with the same id.
        find_counter: finds a tokenizer of the model's; without it tokens are approximated.
    """

    def __init__(
        self,
        *,
        window: int,
        ladder: App[CompactionEnv],
        settings: CompactionSettings | None = None,
        tell: Tell | None = None,
        find_counter: FindCounter | None = None,
    ) -> None:
        self._gauge = Gauge(find_counter)
        self._settings = settings or CompactionSettings()
        self._window = window
        self._ladder = ladder
        self._tell = tell
        self._rests_until = 0  # tokens
        self._counted = 0  # what was refused, in tokens

    @property
    def window(self) -> int:
        """The model's window in tokens, as far as it is known."""
        return self._window

    def learn(self, overflow: ContextOverflow) -> None:
        """Believe what a provider says of its window, and of the request that it refused."""
        window, counted = overflow.data.get("window"), overflow.data.get("asked_tokens")
        if isinstance(window, int) and 0 < window < self._window:
            self._window = window
        self._counted = counted if isinstance(counted, int) else 0

    def reckon(self, thread: Thread, overhead: int) -> Reckoning:
        """Tell how large a thread's conversation is.

        Args:
            thread: it.
            overhead: the approximation of what is sent beside it: instructions and tools.
        """
        return self._reckon(thread, overhead)

    async def count(self, thread: Thread, overhead: int) -> None:
        """Have a tokenizer count what came, where one is at hand and it may matter.

        It suspends only then; what calls for a tokenizer first does not wait for it.
        """
        tally = self._gauge.tally(thread) if not self._gauge.is_exact else None
        if tally is not None:
            unsure = tally.since if tally.reported else tally.size
            most = overhead + tally.reported + FOREIGN * unsure.tokens
            if most < self._settings.triggers_at(self._window):
                return
        await self._gauge.count(thread)

    def is_due(self, thread: Thread, overhead: int) -> bool:
        """Tell whether a conversation is to be compacted before it is sent; else it fits.

        Raises:
            ContextOverflow: what is sent beside it is more than the window alone.
        """
        found = self.reckon(thread, overhead)
        if found.overhead > self._window:
            raise self.overflow(thread, overhead)
        if found.tokens < self._settings.triggers_at(self._window):
            self._rests_until = 0
            return False
        return found.tokens >= self._rests_until or found.tokens > self._window

    def require_room(self, thread: Thread, overhead: int) -> None:
        """Refuse to spend a model call on what cannot fit, whatever is given up.

        Raises:
            ContextOverflow: it cannot.
        """
        conversation = self._conversation(thread)
        found = self._reckon(thread, overhead)
        if max(found.tokens, found.total(conversation)) <= self._window:
            return
        if found.fixed(conversation) > self._window:
            raise self.overflow(thread, overhead)

    def overflow(self, thread: Thread, overhead: int) -> ContextOverflow:
        """Make the error that tells what of a conversation stays, and how large the window is."""
        conversation = self._conversation(thread)
        found = self._reckon(thread, overhead)
        fixed = found.fixed(conversation)
        if fixed > self._window:
            told = (
                f"the conversation does not fit into the model's window of {self._window} tokens; "
                f"its instructions, its tools and the newest messages, which stay, take about "
                f"{fixed}: shorten them, offer fewer tools, or choose a model with a larger window"
            )
        else:
            told = (
                "the model's endpoint refuses the conversation as too long, also as it is now: "
                f"about {found.total(conversation)} tokens as we count, in a window that we take "
                f"for {self._window}. If its window is smaller, say so with `window` under "
                "`compaction` in the agent's file, or give the model a larger one where it is "
                "served; if not, its endpoint is at fault: choose another model"
            )
        return ContextOverflow(told, overhead_tokens=fixed, window=self._window)

    async def run(
        self,
        thread: Thread,
        *,
        overhead: int,
        trigger: Trigger,
        instructions: str = "",
        tell: Tell | None = None,
    ) -> Compacted:
        """Compact a thread's conversation; nothing else changes the thread meanwhile.

        By `overflow` and `manual` it is taken for as large as a window, if it is smaller: somebody
        knows better than the figures that it is too large.

        Args:
            thread: it.
            overhead: the approximation of what is sent beside it: instructions and tools.
            trigger: why.
            instructions: what whoever asks for it wants kept.
            tell: hears of this one too, before the constructor's.

        Returns:
            What it came to; a failure is told there and raises nothing.

        Raises:
            asyncio.CancelledError: it was cancelled. What was told says whether that came before
                it counted.
        """
        run = self._begin(thread, overhead, trigger, instructions)
        tells = [each for each in (tell, self._tell) if each is not None]
        for each in tells:
            each(run.begun)
        outcome: CompactionOutcome = "failed"
        error = ""
        try:
            await self._ladder(run.env)
            outcome = await run.commit()
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except TreadleError as problem:
            error = problem.message
            logger.warning("a compaction failed: %s", error)
        except Exception:
            # A ladder may be anybody's, and no turn ends because of one.
            logger.exception("a compaction failed in a way that nobody foresaw")
            error = "the ladder failed in a way that nobody foresaw; the log says how"
        finally:
            ended = run.ended(outcome, error)
            self._cool_down(ended)
            for each in tells:
                each(ended)
        return ended

    def _begin(self, thread: Thread, overhead: int, trigger: Trigger, instructions: str) -> _Run:
        before = self._conversation(thread)
        counted, self._counted = self._counted if trigger == "overflow" else 0, 0
        found = self._reckon(thread, overhead, counted)
        window = self._window if trigger == "threshold" else min(self._window, found.tokens)
        target = self._settings.target(window, found.overhead)
        # A person who asks for less does not ask for a task that is cut, as long as it fits.
        fits = window if trigger == "overflow" else self._window
        limit = max(self._settings.triggers_at(fits) - found.overhead, target)
        env = CompactionEnv(before, target, found.measure, instructions, limit=limit)
        env.is_asked_for = trigger == "manual"
        return _Run(thread, found, env, trigger)

    def _cool_down(self, ended: Compacted) -> None:
        if ended.outcome == "cancelled":
            return
        is_enough = ended.tokens_after < self._settings.triggers_at(self._window)
        grown = ended.tokens_after + int(self._window * COOL_DOWN)
        self._rests_until = 0 if is_enough and ended.outcome == "completed" else grown

    def _conversation(self, thread: Thread) -> Conversation:
        sizes = self._gauge.sizes(thread)
        keep_steps = self._settings.keep_steps
        return Conversation.of(thread.placed(), thread.compaction, keep_steps, sizes)

    def _reckon(self, thread: Thread, overhead: int, counted: int = 0) -> Reckoning:
        return reckon(self._gauge.tally(thread), overhead, self._window, counted)


class _Run:
    """A compaction on its way: what was before, and what came of it.

    Args:
        thread: whose conversation it is of.
        found: how large that is.
        env: what the ladder makes of it.
        trigger: why.

    Attributes:
        begun: what is told of its beginning.
    """

    def __init__(
        self, thread: Thread, found: Reckoning, env: CompactionEnv, trigger: Trigger
    ) -> None:
        self.env = env
        self.begun = Compacting(uuid4().hex, trigger, found.total(env.conversation))
        self._thread = thread
        self._found = found
        self._before = env.conversation
        self._last = thread.last
        self._gave_up: tuple[Placed, ...] = ()

    async def commit(self) -> CompactionOutcome:
        """Let what the ladder made count, where it is strictly smaller."""
        after = self.env.conversation
        is_smaller = self._found.measure(after) < self._found.measure(self._before)
        # Whatever somebody's own ladder does, a model is asked something.
        if not (is_smaller and after.entries):
            return "declined"
        # Looked up before the thread lets go of them.
        self._gave_up = self._originals(after)
        await self._thread.record_compaction(self._record(after))
        return "completed"

    def ended(self, outcome: CompactionOutcome, error: str) -> Compacted:
        """Sum it up; it is completed where the thread has it, whatever happened since."""
        record = self._thread.compaction
        if record is None or record.id != self.begun.id:
            return self._told(outcome, self._before, error)
        told = self._told("completed", self.env.conversation, "")
        return replace(told, summary=record.summary, gave_up=self._gave_up)

    def _told(self, outcome: CompactionOutcome, now: Conversation, error: str) -> Compacted:
        return Compacted(
            self.begun.id,
            outcome,
            strategies=tuple(self.env.attempts),
            tokens_before=self._found.total(self._before),
            tokens_after=self._found.total(now),
            messages_before=len(self._before.entries),
            messages_after=len(now.entries),
            error=error,
            usage=self.env.usage,
        )

    def _record(self, after: Conversation) -> CompactedRecord:
        tokens = Tokens(self._found.total(self._before), self._found.total(after))
        usage = self.env.usage if self.env.usage != Usage() else None
        record = after.record(self.begun.id, self._last)
        return msgspec.structs.replace(record, tokens=tokens, usage=usage)

    def _originals(self, after: Conversation) -> tuple[Placed, ...]:
        """Return what the model sees no more, or not as it was, as it was said."""
        gone = self._before.ordinals() - after.ordinals()
        was = self._before.rewritten
        rewritten = {at for at, text in after.rewritten.items() if was.get(at) != text}
        return tuple(replace(one, compacted=True) for one in self._thread.as_said(gone | rewritten))
