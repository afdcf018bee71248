"""Keys: the same prompt under the same key runs once, however often it is asked.

Owns which keys of a session run now, and what a prompt's digest is. What those that ran came to
is in the thread, so that a restart forgets nothing. Refuses to know how a prompt runs.

A key is told by its hash: it may hold a secret, and a thread that keeps only the hash of such a
key, or kept it as it is when it was none yet, knows it all the same.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import cast

from treadle.errors import InvalidParams
from treadle.runtime.holding import Holding
from treadle.runtime.prompt import Outcome, Prompt
from treadle.runtime.turn_in_flight import TurnInFlight
from treadle.runtime.turn_queue import TurnQueue
from treadle.thread.message import encode_line
from treadle.thread.outcomes import TurnOutcome, key_hash
from treadle.thread.records import StopReason
from treadle.thread.thread import Thread
from treadle.turn.events import TurnDone


class Keys:
    """The prompts of one session that were asked before, by their keys.

    Args:
        turns: the session's.
        held: what the session holds, its thread above all.
    """

    def __init__(self, turns: TurnQueue, held: Holding) -> None:
        self._turns = turns
        self._held = held
        self._running: dict[str, tuple[str, TurnInFlight]] = {}

    async def find(self, prompt: Prompt) -> TurnInFlight | Outcome | None:
        """Return what answers a prompt that was asked before: its turn, or what that came to.

        Contract: suspends only where the prompt has a key and turns run.

        Returns:
            None where the prompt is to have a turn of its own, which looks its key up again.

        Raises:
            InvalidParams: another prompt was asked under its key.
            ThreadUnreadable: the thread's file cannot be read.
        """
        running = self._find_running(prompt)
        if running is not None or prompt.key is None or not self._turns:
            return running
        return await self._look_up(prompt, prompt.key) or self._find_running(prompt)

    def begin(self, prompt: Prompt, turn: TurnInFlight) -> None:
        """Note that a turn is to answer this prompt."""
        if prompt.key is not None:
            self._running[key_hash(prompt.key)] = digest_of(prompt), turn

    def end(self, keys: Iterable[str]) -> None:
        """Note that the turn of these keys has ended."""
        for key in keys:
            self._running.pop(key_hash(key), None)

    def _find_running(self, prompt: Prompt) -> TurnInFlight | None:
        found = None if prompt.key is None else self._running.get(key_hash(prompt.key))
        if found is None:
            return None
        asked, turn = found
        if asked != digest_of(prompt):
            raise _used()
        return turn

    async def _look_up(self, prompt: Prompt, key: str) -> Outcome | None:
        """Look a key up while turns run; None also where that has to wait for its own turn."""
        if prompt.when_busy == "steer":
            # What is kept of it names the turn that it enters.
            while (turn := self._turns.open) is not None and turn.number is None:
                await turn.has_begun()
                if turn.cause in ("closed", "interrupted"):
                    return Outcome.without_turn(turn.cause)
        thread = self._held.thread
        knows = None if thread is None else thread.knows_key(key)
        if thread is None or knows is False or (knows is None and prompt.when_busy == "queue"):
            return None
        return await asyncio.to_thread(told_before, prompt, thread)


def digest_of(prompt: Prompt) -> str:
    """Tell what a prompt says; what it is asked beside that may differ."""
    return hashlib.sha256(b"\n".join(map(encode_line, prompt.messages))).hexdigest()


def told_before(prompt: Prompt, thread: Thread) -> Outcome | None:
    """Return what an earlier turn under a prompt's key came to; it may block.

    Args:
        prompt: one with a key.
        thread: the session's.

    Returns:
        None where the prompt is to run.

    Raises:
        InvalidParams: another prompt was asked under its key.
        ThreadUnreadable: the thread's file cannot be read.
    """
    assert prompt.key is not None, "a prompt without a key was never asked before"
    found = thread.outcome_of(prompt.key)
    if found is None:
        return None
    if found.asked != digest_of(prompt):
        raise _used()
    return _outcome(found)


def _outcome(found: TurnOutcome) -> Outcome:
    # A newer version may know further reasons, which a client shows as they are.
    reason = cast("StopReason", found.stop_reason)
    done = TurnDone(reason, found.text, found.usage, found.steps)
    return Outcome(done, found.turn, found.messages)


def _used() -> InvalidParams:
    return InvalidParams(
        "another prompt was asked under this key; take a new key for a new prompt", path="key"
    )
