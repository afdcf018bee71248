"""Keys: the same prompt under the same key runs once, however often it is asked.

Owns which keys of a session run now, and what a prompt's digest is. What those that ran came to
is in the thread, so that a restart forgets nothing. Refuses to know how a prompt runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import cast

from treadle.errors import InvalidParams
from treadle.runtime.prompt import Outcome, Prompt
from treadle.runtime.turn_in_flight import TurnInFlight
from treadle.thread.message import encode_line
from treadle.thread.outcomes import TurnOutcome
from treadle.thread.records import StopReason
from treadle.thread.thread import Thread
from treadle.turn.events import TurnDone


class Keys:
    """The turns of one session that run or wait under a key."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[str, TurnInFlight]] = {}

    def find(self, prompt: Prompt) -> TurnInFlight | None:
        """Return the turn that is to answer this prompt; None where none of its key runs.

        Raises:
            InvalidParams: another prompt was asked under its key.
        """
        if prompt.key is None or prompt.key not in self._running:
            return None
        asked, turn = self._running[prompt.key]
        if asked != digest_of(prompt):
            raise _used()
        return turn

    def begin(self, prompt: Prompt, turn: TurnInFlight) -> None:
        """Note that a turn is to answer this prompt."""
        if prompt.key is not None:
            self._running[prompt.key] = digest_of(prompt), turn

    def end(self, keys: Iterable[str]) -> None:
        """Note that the turn of these keys has ended."""
        for key in keys:
            self._running.pop(key, None)


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
