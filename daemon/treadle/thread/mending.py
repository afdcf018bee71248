"""A thread's file taken over by whoever writes it now: read, then mended of what a kill has left.

Owns what is written before anything new is said. Refuses to know how a file is read, and how the
right to write it was got.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from treadle.errors import StorageDegraded, ThreadUnreadable
from treadle.thread.accepted import accepted
from treadle.thread.attachments import referenced
from treadle.thread.blobs import delete_blobs, delete_unfinished
from treadle.thread.journal import Journal
from treadle.thread.ledger import Ledger
from treadle.thread.loaded import BadLine, Loaded, LoadReport
from treadle.thread.lock import ThreadLock
from treadle.thread.message import now
from treadle.thread.obstacles import is_obstructed
from treadle.thread.records import FORMAT_VERSION, SetAsideRecord, ThreadRecord, TurnRecord
from treadle.thread.repair import denied_result, interrupted_result, unanswered_calls
from treadle.thread.resume import resume

logger = logging.getLogger(__name__)

# Digests in one record: its line stays of a length that is read at once.
DIGESTS_PER_RECORD = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """What a file was like: what was wrong with it, and how long it was before it was mended."""

    report: LoadReport
    is_new: bool
    size_bytes: int


def take_over(ledger: Ledger, path: Path, lock: ThreadLock, header: ThreadRecord) -> Found:
    """Hold what is in a thread's file, then make it fit to be written to; it blocks.

    Args:
        ledger: what is to hold it, in place of whatever it held.
        path: the file.
        lock: the right to write it.
        header: the first line of a new file, but for the time.

    Raises:
        ThreadUnreadable: it cannot be opened, or was written by a newer version; nothing was
            changed.
        ThreadLocked: somebody else writes it.
        StorageDegraded: it cannot be read now.
    """
    # What has come to lie there under a thread that was open is no newer version of it: the
    # thread begins afresh, in memory until that is moved away.
    is_gone = ledger.journal is not None and is_obstructed(path)
    loaded = Loaded() if is_gone else resume(path)
    _refuse_newer(path, loaded.header)
    journal = ledger.open_journal(path, lock)
    is_new = loaded.size_bytes == 0 and not loaded.report.torn_bytes
    if journal.storage == "ok":
        _delete_leftovers(ledger, path, is_new=is_new)
    ledger.memory.take(loaded)
    ledger.steered = loaded.steered
    ledger.turns = loaded.turns
    try:
        report = _mend(ledger, journal, loaded, header)
    except BaseException:
        # A journal that is closed is not current, so the next turn reads and mends again.
        journal.close()
        raise
    journal.mended()
    return Found(report, is_new, loaded.size_bytes)


def _delete_leftovers(ledger: Ledger, path: Path, *, is_new: bool) -> None:
    """Delete bytes of which a kill has left a part, or of an earlier thread of this name.

    That is one whose file somebody has deleted. Those of a message that was just accepted stay:
    it is about to be said in the new one.
    """
    try:
        delete_unfinished(path)
        if is_new:
            delete_blobs(path, keep=referenced(map(accepted, ledger.steered)))
    except OSError as error:
        logger.warning("bytes that nobody refers to stay beside %s: %s", path, error)


def _mend(ledger: Ledger, journal: Journal, loaded: Loaded, header: ThreadRecord) -> LoadReport:
    """Write what a kill has kept from the file; return what was wrong with it."""
    if loaded.report.torn_bytes:
        journal.set_tail_aside(loaded.size_bytes)
    if loaded.lacks_line_end:
        journal.end_last_line()
    if loaded.size_bytes == 0:
        ledger.record(msgspec.structs.replace(header, created=now()))
    if loaded.bad_lines:
        _set_aside(ledger, journal, loaded.bad_lines)
    if loaded.began is None:
        ledger.say_accepted()
        return loaded.report
    repaired_calls = _close_interrupted(ledger, loaded.began, loaded.not_allowed)
    return replace(
        loaded.report, repaired_calls=repaired_calls, interrupted_turn=loaded.began.number
    )


def _set_aside(ledger: Ledger, journal: Journal, lines: list[BadLine]) -> None:
    """Have bad lines safe in the side file, then note that they are.

    Where they cannot be copied now they stay where they are, and the next load finds them.
    """
    try:
        journal.keep_lines_aside([(line.offset, line.size_bytes) for line in lines])
    except StorageDegraded as error:
        logger.warning("bad lines could not be copied: %s", error.message)
        return
    for start in range(0, len(lines), DIGESTS_PER_RECORD):
        counts: dict[str, int] = {}
        for line in lines[start : start + DIGESTS_PER_RECORD]:
            counts[line.digest] = counts.get(line.digest, 0) + 1
        ledger.record(SetAsideRecord(counts, now()))


def _close_interrupted(ledger: Ledger, began: TurnRecord, not_allowed: frozenset[str]) -> int:
    """End a turn that a kill left open; return how many calls had to be answered for that.

    Args:
        ledger: holds the turn.
        began: how it began.
        not_allowed: the ids of its calls that waited for a person, or were denied.
    """
    calls = unanswered_calls(ledger.memory.messages)
    ledger.began = began
    for call in calls:
        result_of = denied_result if call.id in not_allowed else interrupted_result
        ledger.say(result_of(call))
    ledger.say_accepted()
    ledger.record(TurnRecord(began.number, "end", now(), "interrupted"))
    ledger.began = None
    return len(calls)


def _refuse_newer(path: Path, header: ThreadRecord | None) -> None:
    if header is not None and header.version > FORMAT_VERSION:
        raise ThreadUnreadable(
            f"{path} has format version {header.version} and this Treadle writes version "
            f"{FORMAT_VERSION}; it can still be read, but to go on with it update Treadle",
            path=str(path),
        )
