"""The stored threads: what of them cannot be read, what a kill left, and who holds them.

Looks at each with a bound, so that a folder of ten thousand is read in seconds; takes no lock and
mends nothing, for opening a session does that. Refuses to know what was said.
"""

from __future__ import annotations

import json
import shlex
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from treadle.cli.doctor.places import shown_size
from treadle.cli.doctor.report import Check, Report, Status
from treadle.errors import StorageDegraded, ThreadUnreadable
from treadle.thread import unsaved, whole
from treadle.thread.blobs import BLOBS_SUFFIX
from treadle.thread.catalogue import NotOurs, ThreadProblem, pair_of, thread_files
from treadle.thread.loaded import Loaded
from treadle.thread.lock import holder
from treadle.thread.obstacles import every_obstacle
from treadle.thread.paths import (
    DAMAGED_SUFFIX,
    DELETING_SUFFIX,
    LOCK_SUFFIX,
    NEW_SUFFIX,
    THREAD_SUFFIX,
    THREADS_FOLDER,
    beside,
)
from treadle.thread.records import FORMAT_VERSION
from treadle.thread.replay import load, load_end

# Larger threads are looked at from their ends, where a kill leaves its traces.
WHOLE_BYTES = 1 << 20

# Beyond this the rest, the threads that were not used for longest, is counted and not read.
ALL_BYTES = 512 << 20

# A hundred lines of the same kind help nobody: further ones are counted.
MAX_TOLD = 20

# What belongs to a thread; anything else beside one is nobody's.
_OURS = (THREAD_SUFFIX, DAMAGED_SUFFIX, LOCK_SUFFIX, NEW_SUFFIX, DELETING_SUFFIX, BLOBS_SUFFIX)


def look_at_threads(report: Report, data: Path, on_progress: Callable[[int], None]) -> None:
    """Tell about every stored thread that has a problem.

    Args:
        report: gets what was found.
        data: the data folder; it need not exist.
        on_progress: called with the number of threads that have been looked at.
    """
    look = _Look(data)
    unlisted: list[ThreadProblem] = []
    files = sorted(thread_files(data, unlisted), key=_changed_at, reverse=True)
    for number, path in enumerate(files, 1):
        look.at(path)
        on_progress(number)
    # A data folder that is none has been told as a folder.
    for problem in unlisted if data.is_dir() else ():
        fix = f"chmod u+rwx {shlex.quote(str(problem.path))}"
        look.tell("threads", "problem", f"{problem.path} cannot be listed: {problem.message}", fix)
    report.threads = {
        "count": len(files),
        "bytes": look.bytes,
        "held": look.held,
        "leftLocks": look.left_locks,
        "unread": look.unread,
    }
    report.checks += look.checks
    report.checks += look.more()
    report.checks += _left(data)
    report.checks += _in_the_way(data)
    report.checks += _unsaved(data)
    report.checks.append(_summary(len(files), look))


@dataclass(slots=True)
class _Look:
    """What was found so far."""

    data: Path
    bytes: int = 0
    unread: int = 0
    left_locks: int = 0
    held: list[dict[str, str | int]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    _read_bytes: int = 0
    _told: Counter[str] = field(default_factory=Counter)

    def at(self, path: Path) -> None:
        """Look at one thread."""
        name = f"thread/{path.parent.name}/{path.stem}"
        try:
            agent, instance = pair_of(self.data, path)
            name = f"thread/{agent}/{instance}"
            size = path.stat().st_size
            self.bytes += size
            pid = self._holder(path)
            if pid is not None:
                self.held.append({"agent": agent, "instance": instance, "pid": pid})
            if self._read_bytes >= ALL_BYTES:
                self.unread += 1
                return
            self._read_bytes += min(size, WHOLE_BYTES)
            loaded = load(path) if size <= WHOLE_BYTES else load_end(path, WHOLE_BYTES)
        except FileNotFoundError:
            return  # it was deleted while we looked
        except NotOurs as error:
            self.tell(name, "warning", f"{path}: {error}", f"mv {shlex.quote(str(path))} ~")
        except (OSError, ThreadUnreadable, StorageDegraded) as error:
            self.tell(name, "problem", str(error), f"ls -l {shlex.quote(str(path))}")
        else:
            for found in _problems(name, path, loaded, (agent, instance), is_held=pid is not None):
                self.tell(*found)

    def tell(self, name: str, status: Status, detail: str, fix: str) -> None:
        """Keep a check, unless there are many of its status already."""
        self._told[status] += 1
        if self._told[status] <= MAX_TOLD:
            self.checks.append(Check(name, status, detail, fix))

    def more(self) -> Iterator[Check]:
        """Say how many were counted only."""
        fix = "mend those above, then run treadle doctor again"
        for status in ("problem", "warning"):
            if (left := self._told[status] - MAX_TOLD) > 0:
                yield Check("threads/more", status, f"{left} more of this kind", fix)

    def _holder(self, path: Path) -> int | None:
        if not beside(path, LOCK_SUFFIX).exists():
            return None
        pid = holder(path)
        self.left_locks += pid is None
        return pid


# The parts of a check that may only be counted: name, status, detail and fix.
_Found = tuple[str, Status, str, str]


def _problems(
    name: str, path: Path, loaded: Loaded, pair: tuple[str, str], *, is_held: bool
) -> Iterator[_Found]:
    file = shlex.quote(str(path))
    if loaded.header is not None and loaded.header.version > FORMAT_VERSION:
        yield name, "problem", f"{path} was written by a newer Treadle", "pip install -U treadle"
    if lines := loaded.report.quarantined_lines:
        what = f"{lines} line{'s' if lines > 1 else ''} of {path} cannot be read and are left out"
        yield name, "warning", what, f"${{EDITOR:-vi}} {file}"
    if is_held:
        return  # whoever holds it may be in the middle of a turn
    params = json.dumps(dict(zip(("agent", "instance"), pair, strict=True)), ensure_ascii=False)
    resume = f"treadle call session/resume {shlex.quote(params)}"
    if torn := loaded.report.torn_bytes:
        yield name, "warning", f"{path} ends in half a line ({shown_size(torn)})", resume
    if loaded.unfinished is not None:
        yield name, "warning", f"turn {loaded.unfinished} was interrupted by a kill", resume


def _left(data: Path) -> Iterator[Check]:
    """Find what kills have left, and files that are none of ours, such as what an editor left."""
    for path in islice(whole.left_behind(data), MAX_TOLD):
        detail = f"{path} is left of a copy or a deletion that was never finished"
        yield Check("threads/left", "warning", detail, "treadle sessions repair")
    strange = [
        path
        for path in sorted((data / THREADS_FOLDER).glob("*/*"))
        if path.suffix not in _OURS and stat.S_ISREG(path.lstat().st_mode)
    ]
    for path in strange[:MAX_TOLD]:
        fix = f"rm {shlex.quote(str(path))}"
        yield Check("threads/left", "warning", f"{path} is no part of any thread", fix)


def _in_the_way(data: Path) -> Iterator[Check]:
    """Find what lies where files of ours should be, and keeps its thread from being opened."""
    for obstacle in islice(every_obstacle(data), MAX_TOLD):
        place = shlex.quote(str(obstacle.path))
        detail = f"{obstacle.path} {obstacle.detail}"
        yield Check("threads/in-the-way", "problem", detail, f"mv {place} {place}.away")


def _unsaved(data: Path) -> Iterator[Check]:
    """Find lines that could not be written to their threads, and lie elsewhere."""
    for waiting in islice(unsaved.of_folder(data), MAX_TOLD):
        if waiting.comes_back:
            detail = (
                f"the last {waiting.counted} of {waiting.thread} lie in {waiting.place} for now"
            )
            yield Check("threads/unsaved", "warning", detail, "treadle sessions repair")
        else:
            detail = f"{waiting.place} holds {waiting.counted} of no thread that is there"
            fix = f"rm {shlex.quote(str(waiting.place))}"
            yield Check("threads/unsaved", "warning", detail, fix)


def _summary(count: int, look: _Look) -> Check:
    details = [f"{count} stored ({shown_size(look.bytes)})"]
    details += [
        f"{each['agent']}/{each['instance']} is held by process {each['pid']}"
        for each in look.held[:MAX_TOLD]
    ]
    if look.left_locks:
        left = look.left_locks
        locks = "1 lock of a killed process, which hinders nobody"
        details.append(locks if left == 1 else f"{left} locks of killed processes, harmless")
    if look.unread:
        details.append(f"{look.unread} of the oldest were not read")
    return Check("threads", "ok", "; ".join(details))


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
