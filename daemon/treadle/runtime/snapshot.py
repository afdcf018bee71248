"""A session as it is at one moment, for a watcher that has not heard what led there.

Owns how much of a long turn that shows. Refuses to know how it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.models.completion import Delta
from treadle.runtime.audience import About
from treadle.runtime.outbox import Outbox, StateChanged
from treadle.thread.history import Placed
from treadle.thread.message import encode_line
from treadle.thread.thread import Thread

# What a watcher has at once; the rest is a page of `session/read` away.
SNAPSHOT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session, now.

    Args:
        now: what it does.
        turn: the number of the turn that runs.
        messages: that turn's, as far as they are said.
        said: what the model says since, kind by kind and in order; it is no message yet.
        pending: the questions that are open.
        omitted: how many of the turn's earlier messages were left out.
    """

    now: StateChanged
    turn: int | None
    messages: Sequence[Placed]
    said: Sequence[Delta]
    pending: Sequence[About]
    omitted: int


def snapshot(
    outbox: Outbox, now: StateChanged, turn: int | None = None, thread: Thread | None = None
) -> Snapshot:
    """Look at a session; never waits.

    Args:
        outbox: its events.
        now: what it does.
        turn: the number of the turn that runs, if one does.
        thread: the one that is held, if any.
    """
    messages = _messages(thread, turn) if thread is not None and turn is not None else []
    shown = _newest(messages)
    said = _said(outbox, turn, messages) if turn is not None else []
    return Snapshot(now, turn, shown, said, outbox.audience.open, len(messages) - len(shown))


def _messages(thread: Thread, turn: int) -> list[Placed]:
    """Return the running turn's messages, which are the last ones."""
    reading = thread.reading()
    found: list[Placed] = []
    for ordinal, message in zip(
        reversed(reading.ordinals), reversed(reading.messages), strict=False
    ):
        if message.turn != turn:
            break
        found.append(Placed(message, ordinal))
    return found[::-1]


def _newest(messages: list[Placed]) -> list[Placed]:
    room = SNAPSHOT_BYTES
    for number, placed in enumerate(reversed(messages)):
        room -= len(encode_line(placed.message))
        if room < 0:
            return messages[len(messages) - number :]
    return messages


def _said(outbox: Outbox, turn: int, messages: list[Placed]) -> list[Delta]:
    """Return what the step that runs has said, if that is no message by now."""
    parts: list[Delta] = []
    for event in outbox.of_this_step():
        delta = event.payload
        if not isinstance(delta, Delta) or event.task is not None or event.turn != turn:
            continue
        if parts and parts[-1].kind == delta.kind:
            parts[-1] = Delta(delta.kind, parts[-1].text + delta.text)
        else:
            parts.append(delta)
    text = "".join(part.text for part in parts if part.kind == "text")
    last = messages[-1].message if messages else None
    is_message = last is not None and last.role == "assistant" and last.text.endswith(text)
    return [] if is_message else parts
