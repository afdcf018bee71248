"""Where the shared daemon of a data folder is met: a few files in a folder that is the person's.

Owns their names, and that nobody else can reach them. Refuses to know whether a daemon is there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys

RUNTIME_VARIABLE = "TREADLE_RUNTIME_DIR"
TRANSPORT_VARIABLE = "TREADLE_TRANSPORT"

# A Unix socket's path has 108 bytes on Linux and 104 on BSD and macOS, the last one NUL.
MOST_PATH_BYTES = 103

# Enough of a digest that no two folders of one person meet, short enough for a socket's path.
_NAME_DIGITS = 16


class Address:
    """The files of one data folder's daemon, by their absolute paths.

    Args:
        folder: where they lie.
        name: what their names begin with.

    Attributes:
        socket: what it listens at; not there where it listens on loopback.
        told: what it tells of itself.
        lock: what it holds as long as it lives.
        starting: held by whoever starts one.
        stderr: what it printed.
    """

    __slots__ = ("folder", "lock", "name", "socket", "starting", "stderr", "told")

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = name
        path = f"{folder}{os.sep}{name}"
        self.socket = f"{path}.sock"
        self.told = f"{path}.daemon"
        self.lock = f"{path}.lock"
        self.starting = f"{path}.starting"
        self.stderr = f"{path}.stderr"


def address_of(data: str) -> Address:
    """Return where the daemon of a data folder is met; the folder for that is made.

    Two names of one data folder, through a link, are one address.

    Args:
        data: the data folder, which need not exist.

    Raises:
        UnsafePlace: somebody else could reach what lies there.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(data))).hexdigest()[:_NAME_DIGITS]
    folder = _folder()
    address = Address(folder, name)
    if not uses_tcp() and len(os.fsencode(address.socket)) > MOST_PATH_BYTES:
        raise _unsafe(folder, "its path is too long for a socket")
    _make_private(folder)
    return address


def uses_tcp() -> bool:
    """Whether it listens on loopback, behind a token, as where there are no Unix sockets."""
    return sys.platform == "win32" or os.environ.get(TRANSPORT_VARIABLE) == "tcp"


def _folder() -> str:
    if given := os.environ.get(RUNTIME_VARIABLE):
        return os.path.abspath(given)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
        return os.path.join(local, "treadle", "run")
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(given) and _fault(given) is None:
        return f"{given}/treadle"
    temporary = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(os.path.abspath(temporary), f"treadle-{os.getuid()}")


def _make_private(folder: str) -> None:
    """Make a folder that only its owner can enter.

    Raises:
        UnsafePlace: it is there and is another's, a link, or open to others.
    """
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unsafe(folder, f"it cannot be made: {error.strerror}") from error
    if (fault := _fault(folder)) is not None:
        raise _unsafe(folder, fault)


def _fault(folder: str) -> str | None:
    """Return why a folder is not the person's alone; None where it is."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        return f"it cannot be looked at: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder, or a link to one"
    if sys.platform == "win32":
        return None  # a folder below a person's own is that person's
    if found.st_uid != os.getuid():
        return f"it belongs to user {found.st_uid}"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"others may enter it (its mode is {stat.S_IMODE(found.st_mode):03o})"
    return None


def _unsafe(folder: str, fault: str) -> Exception:
    # Only here, because whoever is quick has no need of errors.
    from treadle.errors import UnsafePlace

    return UnsafePlace(
        f"the shared daemon cannot be met in {folder}: {fault}; mend that, or name a short path "
        f"that is yours alone in {RUNTIME_VARIABLE}",
        path=folder,
    )
