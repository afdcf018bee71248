"""The seam between the tool `task` and whoever runs sub-agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from treadle.thread.records import StopReason


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """What became of a task.

    Args:
        number: which one of its session, from 1.
        agent: who did it.
        stop_reason: how its turn ended.
        text: the last thing that the sub-agent said.
        steps: how many model calls it made.
        problem: what went wrong, where something did.
        stopped: commands of its that still ran and were stopped.
    """

    number: int
    agent: str
    stop_reason: StopReason
    text: str
    steps: int
    problem: str = ""
    stopped: tuple[str, ...] = ()


class CannotDelegate(Exception):
    """A task did not begin; the text says why, to a model."""


class Delegate(Protocol):
    """Runs tasks for one session.

    Contract: what a sub-agent may do is within what its parent may do, in every respect.
    """

    async def run(self, prompt: str, agent: str | None) -> TaskEnded:
        """Run a task to its end; a cancel stops it first.

        Args:
            prompt: what it is to do.
            agent: the name of the agent that does it; the parent's own if absent.

        Raises:
            CannotDelegate: it did not begin.
        """

    async def close(self) -> None:
        """Stop whatever runs, and give back what it holds; safe to call twice."""
