"""How many sessions a daemon has, and what they do, in figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from treadle.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Census:
    """Sessions, counted.

    Args:
        open: with terms of their own.
        held: whose thread is in memory.
        running: with a turn or a compaction, also one that waits for a person.
        queued: prompts that wait for their turn.
        jobs: with a command in the background.
        degraded: with something that could not be written yet.
    """

    open: int
    held: int
    running: int
    queued: int
    jobs: int
    degraded: int

    @property
    def goes_on(self) -> str:
        """What goes on although nobody may watch, in words; empty where nothing does."""
        told = {
            "sessions at work": self.running,
            "prompts that wait": self.queued,
            "commands in the background": self.jobs,
            "threads that could not be written yet": self.degraded,
        }
        return ", ".join(f"{count} {what}" for what, count in told.items() if count)


def census(sessions: Iterable[Session]) -> Census:
    """Count what is there now; never waits."""
    now = [session.at_present for session in sessions]
    return Census(
        open=sum(one.state != "closed" for one in now),
        held=sum(one.is_held for one in now),
        running=sum(one.state in ("running", "waiting") for one in now),
        queued=sum(one.queued for one in now),
        jobs=sum(one.has_jobs for one in now),
        degraded=sum(one.storage == "degraded" for one in now),
    )
