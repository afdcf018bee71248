"""Rewinds and compactions: what changes which messages a conversation holds, and a model sees.

Owns what such a change may be, and that it is on the device before it is told. Refuses to know who
wants it.
"""

from __future__ import annotations

import asyncio

import msgspec

from treadle.errors import (
    ConfigurationError,
    NoSuchOrdinal,
    StorageDegraded,
    ThreadUnreadable,
)
from treadle.thread.history import History
from treadle.thread.ledger import Ledger
from treadle.thread.loaded import Loaded
from treadle.thread.message import now
from treadle.thread.records import CompactedRecord, RewoundRecord
from treadle.thread.redaction import compaction_without_secrets
from treadle.thread.replay import load
from treadle.thread.resume import Resume


async def rewind(ledger: Ledger, to: int) -> None:
    """End a conversation at an ordinal, as `Thread.rewind` tells."""
    ledger.memory.history.require_held(to)
    memory = ledger.memory
    if to == memory.history.last:
        return
    given_up = await _given_up(ledger, to)
    ledger.require_open()
    count = memory.history.count
    ledger.record(RewoundRecord(to, now(), count))
    if given_up is not None:
        memory.take(given_up)
    memory.history.rewind(to)
    memory.history.count = max(count, memory.history.count)
    await ledger.flush()


async def compact(ledger: Ledger, record: CompactedRecord) -> CompactedRecord:
    """Let a compaction count, as `Thread.record_compaction` tells."""
    _check(record)
    ledger.memory.history.require_held(record.through)
    history = ledger.memory.history
    counts = msgspec.structs.replace(
        compaction_without_secrets(record),
        at=record.at or now(),
        messages=history.count,
        resume=None,
    )
    after = history.copy()
    after.compact(counts)
    if not ledger.memory.has_all_of(after):
        raise NoSuchOrdinal("a compaction cannot bring back what an earlier one gave up")
    # Nothing may be said between what the hints tell and the record that they are in.
    ledger.record(msgspec.structs.replace(counts, resume=_hints(ledger, after)))
    history.compact(counts)
    # What the file lacks is nowhere but in memory.
    if ledger.path is not None and ledger.storage == "ok":
        ledger.memory.give_up()
    await ledger.flush()
    return counts


async def _given_up(ledger: Ledger, to: int) -> Loaded | None:
    """Read again what a compaction gave up that a rewind undoes; None where nothing is needed.

    Raises:
        StorageDegraded: the file lacks what waits to be written.
        ThreadUnreadable: the file cannot be read.
    """
    compaction = ledger.memory.history.compaction
    is_undone = compaction is not None and compaction.through > to
    if ledger.path is None or not is_undone or ledger.memory.is_whole:
        return None
    if ledger.storage != "ok":
        raise StorageDegraded(
            f"to go back behind a compaction takes the file {ledger.path}, in which something that "
            "was said cannot be written now; free some space or repair the disk and try again",
            path=str(ledger.path),
        )
    return await asyncio.to_thread(load, ledger.path)


def _check(record: CompactedRecord) -> None:
    """Refuse a compaction that contradicts itself.

    Raises:
        NoSuchOrdinal: it replaces nothing.
        ConfigurationError: it does.
    """
    if record.through < 0:
        raise NoSuchOrdinal("a compaction replaces at least the first message")
    before = -1
    for first, last in record.keep:
        if not before < first <= last <= record.through:
            raise ConfigurationError(
                "a compaction keeps ranges of ordinals that rise and end at its `through`"
            )
        before = last
    kept = History(record.through + 1, list(record.keep))
    if not all(kept.holds(ordinal) for ordinal in record.rewritten):
        raise ConfigurationError("a compaction rewrites only what it keeps")


def _hints(ledger: Ledger, after: History) -> Resume | None:
    """Tell what the thread can be resumed with once a compaction counts."""
    if ledger.path is None:
        return None
    try:
        spans = ledger.memory.spans(ledger.path, after)
    except (OSError, ValueError, ThreadUnreadable, StorageDegraded):
        return None
    return Resume(ledger.turns, after.held, spans, ledger.began, ledger.steered)
