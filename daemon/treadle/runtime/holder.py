"""Who else holds a thread, and how a person gets to it there."""

from __future__ import annotations

from pathlib import Path

from treadle.errors import ThreadLocked, UnsafePlace
from treadle.rendezvous.address import address_of
from treadle.rendezvous.told import read_told


def with_way(locked: ThreadLocked, data: Path) -> ThreadLocked:
    """Return the error with how its holder is reached, as `how`.

    Args:
        locked: names the holder's process.
        data: the data folder.
    """
    pid = locked.data.get("pid")
    if pid is None:
        return locked
    told = ThreadLocked(locked.message, pid=pid)
    told.data["how"] = _way(pid, data)
    return told


def _way(pid: int, data: Path) -> str:
    try:
        shared = read_told(address_of(str(data)))
    except UnsafePlace:
        shared = None
    if shared is not None and shared.pid == pid:
        return (
            "that is the shared daemon: speak to the session there, by `treadle connect`, `chat` "
            "or `prompt` without --no-daemon, or end it by `treadle daemon stop`"
        )
    return (
        f"process {pid} is a daemon or a script with one client, which ends with that: speak to "
        "the session there, or close it or its editor first"
    )
