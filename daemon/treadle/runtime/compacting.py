"""Compactions that somebody asks for: in the session's lane, one at a time, stopped like turns.

Owns that each ends, whatever happens, and that its end is told exactly once where its beginning
was. Refuses to know what a compaction does, and when one happens by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from treadle.agents.options import SessionOptions
from treadle.compaction.told import Compacted, Compacting
from treadle.errors import InternalError, TreadleError
from treadle.runtime.client import Client
from treadle.runtime.holding import Holding
from treadle.runtime.lane import Job, Lane
from treadle.runtime.outbox import Outbox
from treadle.runtime.services import Services
from treadle.runtime.shown import shown
from treadle.runtime.slot import Slot
from treadle.runtime.turn_in_flight import StopCause, TurnInFlight, TurnStopped

logger = logging.getLogger(__name__)

Told: TypeAlias = Compacting | Compacted

LEFT_BEHIND = "it did not end when it was told to; the conversation is as it was"


@dataclass(slots=True, eq=False)
class CompactionAsked:
    """One that somebody asks for, once; it is stopped as a turn is.

    Args:
        instructions: what is to be kept.
        options: on what terms, where the session is to be opened.
        default_cwd: the client's own folder, likewise.
        client: whose it is; one that has left does not end it.
        on_event: told of its beginning and its end.

    Attributes:
        work: what runs of it.
        last: the end that was told.
    """

    instructions: str = ""
    options: SessionOptions = field(default_factory=SessionOptions)
    default_cwd: Path | None = None
    client: Client | None = None
    on_event: Callable[[Told], None] | None = None
    work: TurnInFlight = field(default_factory=TurnInFlight, init=False)
    last: Compacted | None = field(default=None, init=False)
    withdraw: Callable[[], bool] = field(default=lambda: False, init=False)

    async def stop(self) -> None:
        """Stop this very one, whether it runs or waits; its outcome is `cancelled`."""
        if not self.withdraw():
            await self.work.stop("cancelled")


class Unended:
    """Which compactions were told to have begun, and not to have ended.

    Whoever is left behind can say nothing more, so its end is told for it.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[int | None, str], Compacting] = {}

    def take(self, payload: object, task: int | None = None) -> None:
        """Note what is told; anything but a compaction is none of our business."""
        if isinstance(payload, Compacting):
            self._begun[task, payload.id] = payload
        elif isinstance(payload, Compacted):
            self._begun.pop((task, payload.id), None)

    def end(self) -> list[tuple[int | None, Compacted]]:
        """Return what is still to be told, and of which task it is; once."""
        begun, self._begun = self._begun, {}
        return [
            (task, _cancelled(compacting.id, compacting.tokens, LEFT_BEHIND))
            for (task, _), compacting in begun.items()
        ]


class Compactions:
    """Those of one session that somebody asked for.

    Args:
        services: the daemon's.
        held: what the session holds.
        outbox: where events are told.
        announce: tells what the session does.

    Attributes:
        running: the one that has begun.
    """

    def __init__(
        self, services: Services, held: Holding, outbox: Outbox, announce: Callable[[], None]
    ) -> None:
        self.running: CompactionAsked | None = None
        self._services = services
        self._held = held
        self._outbox = outbox
        self._announce = announce
        self._asked: list[CompactionAsked] = []

    async def outcome(self, asked: CompactionAsked, job: Job[Compacted], lane: Lane) -> Compacted:
        """Wait for what one comes to, whose `run` is a job; a caller that is cancelled stops it."""

        def withdraw() -> bool:
            if not job.has_begun:
                lane.withdraw(job)
                self._forget(asked)
            return not job.has_begun

        asked.withdraw = withdraw
        self._asked.append(asked)
        try:
            return await asyncio.shield(job.outcome)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or not caller.cancelling():
                return _cancelled("", 0)
            if asked.client is None or not asked.client.has_left:
                await asked.stop()
            raise

    async def stop(self, cause: StopCause) -> bool:
        """Stop the one that runs, within a bound; return whether there was one that has ended."""
        return self.running is not None and await self.running.work.stop(cause)

    def mark(self, cause: StopCause) -> None:
        """Have every one end without beginning, when its time comes."""
        for asked in self._asked:
            asked.work.mark(cause)

    async def run(self, asked: CompactionAsked) -> Compacted:
        """Run one in the lane.

        Returns:
            What it came to; without an id where it was stopped before it began.

        Raises:
            TreadleError: the session cannot be opened, or no model is there for it.
        """
        unended = Unended()
        try:
            return await self._run(asked, unended)
        except TurnStopped as stopped:
            if stopped.left_behind:
                await self._held.let_go_at_once(asked.work.inbox)
            self._end(asked, unended)
            return asked.last or _cancelled("", 0)
        except TreadleError:
            raise
        except Exception:
            logger.exception("a compaction failed in a way nobody foresaw")
            told = "the compaction failed inside the daemon; its log says how"
            raise InternalError(told) from None
        finally:
            self._end(asked, unended)
            self.running = None
            self._announce()

    async def _run(self, asked: CompactionAsked, unended: Unended) -> Compacted:
        """Open the session, wait for a place among the daemon's turns, compact."""
        if asked.work.cause is not None:
            raise TurnStopped
        # Before anything suspends: a cancel finds it, and the session is at work.
        self.running = asked
        opened = await self._held.open(asked.options, asked.default_cwd)
        self._announce()

        def tell(payload: Told) -> None:
            if not asked.work.has_ended:
                unended.take(payload)
                self._tell(asked, payload)

        slot = Slot(await self._services.turn_slots())
        try:
            await asked.work.run(slot.take())
            compactor, overhead = await opened.compaction()
            return await asked.work.run(
                compactor.run(
                    opened.thread,
                    overhead=overhead,
                    trigger="manual",
                    instructions=asked.instructions,
                    tell=tell,
                )
            )
        finally:
            slot.end()

    def _end(self, asked: CompactionAsked, unended: Unended) -> None:
        """Hear nothing more of one, and tell its end where it has not said so itself."""
        self._forget(asked)
        for _, ended in unended.end():
            self._tell(asked, ended)

    def _forget(self, asked: CompactionAsked) -> None:
        asked.work.end(None)
        if asked in self._asked:
            self._asked.remove(asked)

    def _tell(self, asked: CompactionAsked, payload: Told) -> None:
        if isinstance(payload, Compacted):
            asked.last = payload
            logger.info(
                "%s: a compaction: %s, %d to %d tokens",
                shown(self._outbox.pair),
                payload.outcome,
                payload.tokens_before,
                payload.tokens_after,
            )
        self._outbox.emit(payload)
        if asked.on_event is not None:
            try:
                asked.on_event(payload)
            except Exception:
                logger.exception("whoever asked for a compaction cannot be told of it")


def _cancelled(name: str, tokens: int, error: str = "") -> Compacted:
    return Compacted(name, "cancelled", tokens_before=tokens, tokens_after=tokens, error=error)
