"""What a prompt that was asked under a key came to, read from a thread's file.

Owns which turns have keys and what is left of such a turn. Refuses to know who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from treadle.thread.message import LINE_START, Message, Usage
from treadle.thread.records import TURN_START, RecordLine, TurnRecord, decode_record
from treadle.thread.replay import UNREADABLE, decode, lines_of, opened

# Stands in the line of every turn that has a key.
_KEY = b'"key"'


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn under a key ended.

    Args:
        asked: the digest of its prompt.
        turn: its number.
        text: the last thing that the model said in it.
        stop_reason: a `StopReason`, as far as this version writes.
        usage: what all its model calls cost.
        steps: how many those were.
        messages: the ordinals of its first and last message; None where it said nothing.
    """

    asked: str
    turn: int
    text: str
    stop_reason: str
    usage: Usage
    steps: int
    messages: tuple[int, int] | None


def find_keys(path: Path) -> dict[str, int]:
    """Find where the last turn of each key starts, in bytes.

    Raises:
        FileNotFoundError: there is no file.
        ThreadUnreadable: it cannot be opened.
    """
    found: dict[str, int] = {}
    offset = 0
    with opened(path) as file:
        for line in lines_of(file):
            if line.startswith(TURN_START) and _KEY in line:
                turn = _turn_of(line)
                if turn is not None and turn.event == "start" and turn.key:
                    found[turn.key] = offset
            offset += len(line)
    return found


def outcome_at(path: Path, key: str, offset: int) -> TurnOutcome | None:
    """Read what the turn came to whose start is at `offset`.

    Returns:
        None where it ended with an error, which uses no key up, or where it is not there.

    Raises:
        FileNotFoundError: there is no file.
        ThreadUnreadable: it cannot be opened.
    """
    with opened(path) as file:
        file.seek(offset)
        lines = lines_of(file)
        start = _turn_of(next(lines, b""))
        if start is None or start.event != "start" or start.key != key:
            return None
        return outcome_of(start, _decoded(lines))


def outcome_of(
    start: TurnRecord, lines: Iterable[Message | TurnRecord | None]
) -> TurnOutcome | None:
    """Sum up a turn.

    Args:
        start: how it began.
        lines: what follows; None for a message that cannot be read.

    Returns:
        None where it ended with an error. One that has no end was interrupted.
    """
    count, text = 0, ""
    end = TurnRecord(start.number, "end", stop_reason="interrupted")
    for line in lines:
        if not isinstance(line, TurnRecord):
            count += 1
            text = line.text if line is not None and line.role == "assistant" else text
        elif line.event == "start":
            break
        elif line.event == "end" and line.number == start.number:
            end = line
            break
    if end.stop_reason == "error":
        return None
    return TurnOutcome(
        start.asked,
        start.number,
        text,
        end.stop_reason or "interrupted",
        end.usage or Usage(),
        end.steps,
        (start.messages, start.messages + count - 1) if count else None,
    )


def _decoded(lines: Iterable[bytes]) -> Iterator[Message | TurnRecord | None]:
    for line in lines:
        try:
            decoded = decode(line)
        except UNREADABLE:
            if line.startswith(LINE_START):
                yield None
            continue
        if isinstance(decoded, RecordLine):
            if decoded.turn is not None:
                yield decoded.turn
        else:
            yield decoded


def _turn_of(line: bytes) -> TurnRecord | None:
    try:
        return decode_record(line).turn
    except UNREADABLE:
        return None
