"""What is asked of a session, and what it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from treadle.agents.options import SessionOptions
from treadle.runtime.client import Client
from treadle.runtime.outbox import Said, TurnPayload
from treadle.sandbox.overlay import Buffers
from treadle.secrets import known
from treadle.thread.message import Message, Usage
from treadle.thread.records import StopReason
from treadle.turn.events import StepStarted, TurnDone

WhenBusy: TypeAlias = Literal["queue", "reject", "steer"]

# What those who only watch are told of a prompt; `session/read` has the whole of it.
SAID_CHARACTERS = 100_000

Listener: TypeAlias = Callable[[StepStarted | TurnPayload], None]
"""Told what happens in a prompt's turn, right after the session's watchers were.

Contract: must not block or suspend; what it raises is logged and reaches nobody else.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """What a client asks for with one prompt; told apart by identity, not by what it says.

    Args:
        messages: what is said.
        options: the terms on which the session is to be open.
        default_cwd: the client's own folder.
        max_turns: this prompt's bound on model calls; ignored where it enters another's turn.
        when_busy: while a turn runs: wait behind it, be refused, or enter it.
        key: under which the same prompt runs once, however often it is asked.
        client: who may be asked whether a call of its turn may run; nobody where absent.
        buffers: what its client has open in an editor, which its turn's tools see and change.
        on_event: told what happens in its turn, from the moment at which it has one; a prompt
            that another of the same key answers hears the whole text at the end, and the end.
    """

    messages: Sequence[Message]
    options: SessionOptions
    default_cwd: Path | None = None
    max_turns: int | None = None
    when_busy: WhenBusy = "queue"
    key: str | None = None
    client: Client | None = None
    buffers: Buffers | None = None
    on_event: Listener | None = None


def told_to_others(prompt: Prompt) -> Said:
    """Return what a prompt says, for those who watch and did not say it."""
    text = known().redact("\n".join(message.text for message in prompt.messages))
    is_long = len(text) > SAID_CHARACTERS
    return Said(text[:SAID_CHARACTERS], prompt.client, truncated=is_long)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A prompt's one outcome; `turn` and `messages` are absent when its turn never began.

    Attributes:
        done: how its turn ended.
        turn: that turn's number.
        messages: the ordinals of that turn's first and last message.
    """

    done: TurnDone
    turn: int | None = None
    messages: tuple[int, int] | None = None

    @classmethod
    def without_turn(cls, cause: StopReason) -> Outcome:
        """Return the outcome of a prompt that was stopped before it had a turn."""
        return cls(TurnDone(cause, "", Usage(), 0))

    @property
    def text(self) -> str:
        """The last thing that the model said in the turn."""
        return self.done.text


@dataclass(frozen=True, slots=True)
class Steered:
    """Where steered text went: into a turn (`injected`), or into one that it began.

    `turn` is absent as long as that turn has no number.
    """

    injected: bool
    turn: int | None = None
