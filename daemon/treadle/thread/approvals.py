"""What a thread's file keeps of asking a person, for whoever shows it.

Reads without a lock, and decodes nothing else. Refuses to know who is asked, and how.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from treadle.thread.lines import UNREADABLE, lines_of, opened
from treadle.thread.records import APPROVAL_START, ApprovalRecord, decode_record


def approvals_in(path: Path) -> Iterator[ApprovalRecord]:
    """Yield a thread's approvals in order; what cannot be read is left out.

    Args:
        path: the thread's file; one that is not there has none.

    Raises:
        ThreadUnreadable: it cannot be opened or read.
    """
    try:
        with opened(path) as file:
            for line in lines_of(file):
                if line.startswith(APPROVAL_START) and (record := _decoded(line)) is not None:
                    yield record
    except FileNotFoundError:
        return


def _decoded(line: bytes) -> ApprovalRecord | None:
    try:
        return decode_record(line).approval
    except UNREADABLE:
        return None
