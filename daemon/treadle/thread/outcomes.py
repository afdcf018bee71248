"""What a prompt that was asked under a key came to, read from a thread's file.

Owns which turns have keys, how a key is kept, and what is left of such a turn. Refuses to know
who asks.

A key stands in the thread as it was given, unless it holds a secret: then only its hash does.
What is a secret may change, so keys are told by their hashes, whichever form stands in the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from treadle.secrets import known
from treadle.thread.lines import UNREADABLE, decode, lines_of, opened
from treadle.thread.message import LINE_START, Message, Usage
from treadle.thread.records import (
    STEERED_START,
    TURN_START,
    RecordLine,
    TurnRecord,
    decode_record,
)

# Stands in every line that has a key.
_KEY = b'"key"'
# Stands in the line of every start of a turn.
_START = b'"event":"start"'
_MAY_HAVE_KEYS = (TURN_START, STEERED_START)


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


def kept_key(key: str) -> str:
    """Return a key as it is kept: its hash where it holds a secret, else the key itself."""
    return key if known().redact(key) == key else key_hash(key)


def key_hash(key: str) -> str:
    """Return what tells a key from others: its hash, also where that is what is given."""
    if _HASH.fullmatch(key):
        return key
    return "sha256:" + hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


# How a key looks that was hashed already.
_HASH = re.compile("sha256:[0-9a-f]{64}")


class KeyPlace(NamedTuple):
    """Where in a file, in bytes, the turn of a key starts, and where the key itself stands.

    Those differ where the key's prompt entered a turn that ran.
    """

    start: int
    key: int


class TurnKeys:
    """The keys of one open thread, by their hashes, and what their turns came to.

    What its file held when it was opened is looked through once, when somebody first asks for a
    key that is not among those since then.

    Args:
        path: the thread's file; None for a thread in memory.

    Contract: `outcome_of` may block, and so be called in a worker thread meanwhile.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stored: dict[str, KeyPlace] | None = None  # those in the file, once looked for
        self._new: dict[str, KeyPlace] = {}  # those since it was opened
        self._kept: dict[str, TurnOutcome] = {}  # what no file has
        self._running: dict[str, str] = {}  # digests of the prompts of the turn that runs
        self._start: int | None = None
        self._opened_bytes = 0

    def forget(self, size_bytes: int = 0) -> None:
        """Begin anew: the file is another one.

        Args:
            size_bytes: how much of it there is before this process writes to it.
        """
        self._stored, self._new, self._kept = None, {}, {}
        self._opened_bytes = size_bytes

    def take(self, other: TurnKeys) -> None:
        """Know what another thread in memory knew."""
        self._kept = dict(other._kept)

    def begin(self, offset: int | None, key: str, asked: str) -> None:
        """Note that a turn begins.

        Args:
            offset: where its line begins; None where it is not in the file yet.
            key: its prompt's key, if it has one.
            asked: a digest of that prompt.
        """
        self._start, self._running = offset, {}
        self.note(offset, key, asked)

    def note(self, offset: int | None, key: str, asked: str) -> None:
        """Note that the turn that runs has a key, as `begin` does."""
        if not key:
            return
        key = key_hash(key)
        self._running[key] = asked
        self._kept.pop(key, None)
        self._new.pop(key, None)
        if self._start is not None and offset is not None:
            self._new[key] = KeyPlace(self._start, offset)

    def end(self, began: TurnRecord, ended: TurnRecord, count: int, text: str) -> None:
        """Note how the turn that runs ended.

        Args:
            began: its start.
            ended: its end.
            count: how many messages it has.
            text: the last thing that the model said in it.
        """
        for key, asked in self._running.items():
            outcome = _outcome(asked, began, ended, count, text)
            if outcome is not None and (self._path is None or key not in self._new):
                self._kept[key] = outcome
        self._running = {}

    def knows(self, key: str) -> bool | None:
        """Tell whether a turn had this key; None where the file has to be looked through first."""
        key = key_hash(key)
        if key in self._running or key in self._new or key in self._kept:
            return True
        if self._path is None:
            return False
        return None if self._stored is None else key in self._stored

    def outcome_of(self, key: str) -> TurnOutcome | None:
        """Return what the last turn under a key came to; it may block.

        Returns:
            None where no turn had this key, the last one ended with an error, or it runs.

        Raises:
            ThreadUnreadable: the file cannot be read.
        """
        key = key_hash(key)
        if key in self._running:
            return None
        if self._path is None or key in self._kept:
            return self._kept.get(key)
        try:
            # A turn may begin meanwhile, and what it adds to the file is no outcome yet: its keys
            # are among the new ones, and as long as it runs among the running.
            if self._stored is None and key not in self._new:
                self._stored = find_keys(self._path, self._opened_bytes)
            place = self._new.get(key) or (self._stored or {}).get(key)
            if place is None or key in self._running:
                return None
            return outcome_at(self._path, key, place)
        except FileNotFoundError:
            return None


def find_keys(path: Path, size_bytes: int) -> dict[str, KeyPlace]:
    """Find the last turn of each key, by the key's hash.

    Args:
        path: the thread's file.
        size_bytes: how much of it counts; what begins behind that does not.

    Raises:
        FileNotFoundError: there is no file.
        ThreadUnreadable: it cannot be opened.
    """
    found: dict[str, KeyPlace] = {}
    start = offset = 0
    with opened(path) as file:
        for line in lines_of(file):
            if offset >= size_bytes:
                break
            if line.startswith(TURN_START) and _START in line:
                start = offset
            if line.startswith(_MAY_HAVE_KEYS) and _KEY in line:
                key = _key_of(line).key
                if key:
                    found[key_hash(key)] = KeyPlace(start, offset)
            offset += len(line)
    return found


def outcome_at(path: Path, key: str, place: KeyPlace) -> TurnOutcome | None:
    """Read what the turn of a key, or of a key's hash, came to.

    Returns:
        None where it ended with an error, which uses no key up, or where it is not there.

    Raises:
        FileNotFoundError: there is no file.
        ThreadUnreadable: it cannot be opened.
    """
    with opened(path) as file:
        file.seek(place.key)
        said = _key_of(next(lines_of(file), b""))
        file.seek(place.start)
        lines = lines_of(file)
        start = _turn_of(next(lines, b""))
        if key_hash(said.key) != key_hash(key) or start is None or start.number != said.turn:
            return None
        return outcome_of(said.asked, start, _decoded(lines))


def outcome_of(
    asked: str, start: TurnRecord, lines: Iterable[Message | TurnRecord | None]
) -> TurnOutcome | None:
    """Sum up a turn.

    Args:
        asked: the digest of the prompt that asks.
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
    return _outcome(asked, start, end, count, text)


def _outcome(
    asked: str, start: TurnRecord, end: TurnRecord, count: int, text: str
) -> TurnOutcome | None:
    if end.stop_reason == "error":
        return None
    return TurnOutcome(
        asked,
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


class _Key(NamedTuple):
    """A key, the digest of its prompt, and the number of the turn."""

    key: str = ""
    asked: str = ""
    turn: int = 0


def _key_of(line: bytes) -> _Key:
    """Read the key of a line; an empty one where it has none."""
    try:
        record = decode_record(line)
    except UNREADABLE:
        return _Key()
    if record.turn is not None and record.turn.event == "start":
        return _Key(record.turn.key, record.turn.asked, record.turn.number)
    if record.steered is not None:
        return _Key(record.steered.key, record.steered.asked, record.steered.turn)
    return _Key()


def _turn_of(line: bytes) -> TurnRecord | None:
    try:
        return decode_record(line).turn
    except UNREADABLE:
        return None
