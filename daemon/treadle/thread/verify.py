"""Looking through a whole data folder for what is wrong, and mending it.

`verify` changes nothing and takes no lock; `repair` does what opening each thread would do, and
tidies up, under its lock. No thread is ever held in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from treadle.errors import RequestFailed, StorageDegraded, ThreadUnreadable
from treadle.thread import unsaved
from treadle.thread.blobs import check_blobs
from treadle.thread.catalogue import NotOurs, ThreadProblem, pair_of, thread_files
from treadle.thread.files import FILE_MODE
from treadle.thread.lines import opened
from treadle.thread.loaded import Loaded, LoadReport
from treadle.thread.lock import holder
from treadle.thread.obstacles import every_obstacle, obstacles
from treadle.thread.opening import bring_back
from treadle.thread.paths import NEW_SUFFIX, THREAD_SUFFIX
from treadle.thread.reader import Reader
from treadle.thread.records import FORMAT_VERSION, ThreadRecord
from treadle.thread.thread import Thread
from treadle.thread.whole import left_behind, tidy

FindingKind: TypeAlias = Literal[
    "unreadable",
    "unknown_pair",
    "other_pair",
    "newer_version",
    "bad_line",
    "torn_tail",
    "interrupted_turn",
    "unsaid_message",
    "odd_record",
    "open_to_others",
    "lost_bytes",
    "orphan_bytes",
    "left_behind",
    "in_the_way",
    "unsaved",
]

# Further bad lines of one thread are counted only: a hundred of a kind help nobody.
TOLD_LINES = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a thread.

    Args:
        path: its file, or the file or folder that is wrong.
        kind: what kind of thing it is.
        detail: what it is, in words.
        line: the line it is in, from 1; 0 where it is in none.
        offset: where that begins, in bytes.
        is_mendable: `repair` mends it.
    """

    path: Path
    kind: FindingKind
    detail: str
    line: int = 0
    offset: int = 0
    is_mendable: bool = False


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of a thread that something was wrong with.

    Args:
        path: its file.
        report: what was mended in it.
        problem: why it could not be mended; nothing where it was.
    """

    path: Path
    report: LoadReport = field(default_factory=LoadReport)
    problem: str = ""


def verify(data: Path) -> Iterator[Finding]:
    """Yield what is wrong with the threads of a data folder, thread by thread; it blocks.

    What a process that holds a thread may be in the middle of is no finding.

    Args:
        data: the data folder; it need not exist.
    """
    unlisted: list[ThreadProblem] = []
    for path in thread_files(data, unlisted):
        yield from verify_thread(data, path)
    for problem in unlisted:
        yield Finding(problem.path, "unreadable", problem.message)
    for obstacle in every_obstacle(data):
        yield Finding(obstacle.path, "in_the_way", obstacle.detail)
    yield from _unsaved(data)
    for left in left_behind(data):
        what = "a copy" if left.suffix == NEW_SUFFIX else "a deletion"
        yield Finding(left, "left_behind", f"{what} that was never finished", is_mendable=True)


def verify_thread(data: Path, path: Path) -> Iterator[Finding]:
    """Yield what is wrong with one thread.

    Args:
        data: the data folder.
        path: the thread's file.
    """
    reader = Reader(keeps=False)
    try:
        with opened(path) as file:
            is_held = holder(path) is not None
            loaded = reader.read(file)
            pair = pair_of(data, path)
    except FileNotFoundError:
        return  # it was deleted while we looked
    except NotOurs as error:
        yield Finding(path, "unknown_pair", str(error))
        return
    except (OSError, ThreadUnreadable, StorageDegraded) as error:
        yield Finding(path, "unreadable", str(error))
        return
    is_newer = loaded.header is not None and loaded.header.version > FORMAT_VERSION
    mends = not is_held and not is_newer
    yield from _in_first_line(path, loaded.header, pair)
    yield from _in_lines(path, reader, loaded, mends=mends)
    if _is_open_to_others(path):
        yield Finding(path, "open_to_others", "other users may read it", is_mendable=mends)
    yield from _in_blobs(path, loaded, is_held=is_held)
    if not is_held:
        yield from _at_the_end(path, loaded, mends=mends)


def repair(data: Path) -> Iterator[Repaired]:
    """Mend what `verify` finds and can be mended, thread by thread; it blocks.

    Args:
        data: the data folder; it need not exist.
    """
    # Each file is told once, however much is wrong with it.
    for path in dict.fromkeys(one.path for one in verify(data) if one.is_mendable):
        try:
            if path.suffix == THREAD_SUFFIX:
                yield _mended(data, path)
            else:
                tidy(path)
                yield Repaired(path)
        except (RequestFailed, OSError) as error:
            yield Repaired(path, problem=str(error))


def _in_first_line(
    path: Path, header: ThreadRecord | None, pair: tuple[str, str]
) -> Iterator[Finding]:
    """Yield what is wrong with what a thread says of itself."""
    if header is None:
        return
    if header.version > FORMAT_VERSION:
        yield Finding(path, "newer_version", f"it has format version {header.version}")
    elif header.agent and (header.agent, header.instance) != pair:
        whose = f"{header.agent}/{header.instance}"
        yield Finding(path, "other_pair", f"its first line says that it is {whose}")


def _in_lines(path: Path, reader: Reader, loaded: Loaded, *, mends: bool) -> Iterator[Finding]:
    """Yield the lines that cannot be read, and that some speak of what is not there."""
    for bad in loaded.bad_lines[:TOLD_LINES]:
        yield Finding(path, "bad_line", bad.why, bad.number, bad.offset, mends)
    if (more := len(loaded.bad_lines) - TOLD_LINES) > 0:
        yield Finding(path, "bad_line", f"{more} more", is_mendable=mends)
    if reader.odd_records:
        detail = f"{reader.odd_records} rewinds or compactions speak of messages that are not there"
        yield Finding(path, "odd_record", detail)


def _in_blobs(path: Path, loaded: Loaded, *, is_held: bool) -> Iterator[Finding]:
    """Yield what is wrong beside a thread; whoever holds it may be about to refer to an orphan."""
    in_the_way = {obstacle.path for obstacle in obstacles(path)}
    for blob in check_blobs(path, loaded.messages):
        if blob.path in in_the_way:
            continue
        if blob.kind != "orphan":
            yield Finding(blob.path, "lost_bytes", f"a message refers to it, and it is {blob.kind}")
        elif not is_held:
            yield Finding(blob.path, "orphan_bytes", "no message refers to it")


def _at_the_end(path: Path, loaded: Loaded, *, mends: bool) -> Iterator[Finding]:
    """Yield what a kill has left unfinished."""
    if torn := loaded.report.torn_bytes:
        detail = f"it ends in half a line of {torn} byte{'s' * (torn > 1)}"
        yield Finding(path, "torn_tail", detail, 0, loaded.size_bytes, mends)
    if loaded.unfinished is not None:
        detail = f"turn {loaded.unfinished} was interrupted by a kill"
        yield Finding(path, "interrupted_turn", detail, is_mendable=mends)
    elif loaded.steered:
        many = len(loaded.steered)
        told = f"{many} messages were accepted and have no line of their own"
        detail = told if many > 1 else "a message was accepted and has no line of its own"
        yield Finding(path, "unsaid_message", detail, is_mendable=mends)


def _unsaved(data: Path) -> Iterator[Finding]:
    """Yield what lies elsewhere of the threads of a data folder."""
    for waiting in unsaved.of_folder(data):
        if waiting.thread is None:
            continue  # of some other folder, as far as can be told
        if waiting.comes_back:
            detail = f"its last {waiting.counted} could not be written: {waiting.place}"
            yield Finding(waiting.thread, "unsaved", detail, is_mendable=True)
        else:
            detail = f"{waiting.counted} of an earlier thread {waiting.thread}, which is gone"
            yield Finding(waiting.place, "unsaved", detail)


def _mended(data: Path, path: Path) -> Repaired:
    """Open a thread, which mends it.

    Raises:
        RequestFailed: it cannot be opened for writing.
    """
    bring_back(path)
    agent, instance = pair_of(data, path)
    thread = Thread.open(path, agent=agent, instance=instance)
    try:
        if _is_open_to_others(path):
            path.chmod(FILE_MODE)
    finally:
        thread.close()
    return Repaired(path, thread.report)


def _is_open_to_others(path: Path) -> bool:
    return sys.platform != "win32" and bool(path.stat().st_mode & 0o077)
