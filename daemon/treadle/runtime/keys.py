"""Keys: the same prompt under the same key runs once, however often it is asked.

Owns which keys run and what those that ran came to, for the daemon's life.
Refuses to know how a prompt runs.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from treadle.errors import InvalidParams, TreadleError
from treadle.runtime.outbox import Pair
from treadle.runtime.prompt import Outcome, Prompt
from treadle.runtime.turn_in_flight import TurnInFlight
from treadle.thread.message import encode_line

# Room for some thousand answers of usual length, far more than any client repeats.
KEPT_CHARACTERS = 8 << 20

# What an outcome takes beside its text: the key, the digest, the numbers.
_CHARACTERS_BESIDE_TEXT = 1000


class _Key(NamedTuple):
    pair: Pair
    key: str


@dataclass(frozen=True, slots=True)
class _Run:
    """A turn that runs or waits under a key, or what it came to; `said` tells its prompt."""

    said: bytes
    result: TurnInFlight | Outcome


class Keys:
    """Which prompts run under a key, and the outcomes of those that have.

    Outcomes that nobody asked for longest go first where there are too many; a turn that has
    not ended never goes.
    """

    def __init__(self) -> None:
        self._running: dict[_Key, _Run] = {}
        self._kept: OrderedDict[_Key, _Run] = OrderedDict()
        self._characters = 0

    def find(self, pair: Pair, prompt: Prompt) -> TurnInFlight | Outcome | None:
        """Return the turn that answers this prompt, or what it came to; None if it is to run.

        Raises:
            InvalidParams: another prompt was asked under its key.
        """
        if prompt.key is None:
            return None
        key = _Key(pair, prompt.key)
        run = self._running.get(key) or self._kept.get(key)
        if run is None:
            return None
        if run.said != _digest(prompt):
            raise InvalidParams(
                "another prompt was asked under this key; take a new key for a new prompt",
                path="key",
            )
        if key in self._kept:
            self._kept.move_to_end(key)
        return run.result

    def begin(self, pair: Pair, prompt: Prompt, turn: TurnInFlight) -> None:
        """Note that a turn is to answer this prompt."""
        if prompt.key is not None:
            self._running[_Key(pair, prompt.key)] = _Run(_digest(prompt), turn)

    def conclude(self, pair: Pair, key: str, outcome: Outcome | TreadleError) -> None:
        """Keep what a prompt came to; an error or a turn that never began uses no key up."""
        run = self._running.pop(_Key(pair, key), None)
        if run is None or not isinstance(outcome, Outcome) or outcome.turn is None:
            return
        self._kept[_Key(pair, key)] = _Run(run.said, outcome)
        self._characters += _size(outcome)
        while self._characters > KEPT_CHARACTERS and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            if isinstance(oldest.result, Outcome):
                self._characters -= _size(oldest.result)


def _size(outcome: Outcome) -> int:
    return len(outcome.done.text) + _CHARACTERS_BESIDE_TEXT


def _digest(prompt: Prompt) -> bytes:
    """Tell what a prompt says; what it is asked beside that may differ."""
    return hashlib.sha256(b"\n".join(map(encode_line, prompt.messages))).digest()
