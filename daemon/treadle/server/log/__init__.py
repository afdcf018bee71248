"""The daemon's log: warnings on standard error, everything in a file, and nobody waits for either.

Owns who hears what, and from which level on. Refuses to know what is told and when.
Third parties' loggers stay at warnings whatever the level is: what they say below that may be
payloads. `words` says what a line may hold.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from treadle.errors import ConfigurationError
from treadle.folders import Folders
from treadle.server.log.background import BackgroundLog, Entry
from treadle.server.log.file import LogFile
from treadle.server.log.words import is_ours, time_of
from treadle.version import __version__

# For a daemon that an editor starts, which has no place for a flag.
LEVEL_VARIABLE = "TREADLE_LOG_LEVEL"

# How much the file tells, from the most to the least.
LEVELS = ("debug", "info", "warning", "error")

# Each request and turn in a line: enough to see what happened.
DEFAULT_LEVEL = "info"

logger = logging.getLogger(__name__)


def start_log(
    folders: Folders,
    level: str | None = None,
    *,
    stderr_fd: int | None = None,
    on_failure: Callable[[OSError], None] | None = None,
) -> None:
    """Begin to log, in place of whatever was begun before; the first line says who logs.

    Args:
        folders: the daemon's; that of the logs is made with the first line.
        level: how much the file tells; without it `TREADLE_LOG_LEVEL`, else `info`. A word of
            the environment that is no level costs a warning.
        stderr_fd: where warnings go as well; None for a command, whose standard error is the
            person's.
        on_failure: called once, in a thread of the log's, when the file cannot be written; a
            warning when left out.

    Raises:
        ConfigurationError: `level` is none.
    """
    stop_log()
    if stderr_fd is not None:
        _begin(BackgroundLog(_plain(stderr_fd), _on_stderr, "stderr"), logging.WARNING)
    file = BackgroundLog(
        LogFile(folders.logs).write, _in_file, "file", on_failure or _warn(folders.logs)
    )
    _begin(file, logging.INFO)
    said = os.environ.get(LEVEL_VARIABLE, "").strip()
    if level is None and said and said.lower() not in LEVELS:
        logger.warning("%s is no level; it can be %s", LEVEL_VARIABLE, ", ".join(LEVELS))
        said = ""
    _own_level[0] = _number_of(level or said or DEFAULT_LEVEL)
    _apply()
    _introduce(folders)


def ask_level(asker: object, name: str) -> None:
    """Have the file tell as much as a client wants, for as long as that client is there.

    Of several who ask, whoever wants the most gets it; standard error keeps warnings.

    Args:
        asker: who asks; asking again takes the place of what was asked before.
        name: one of `LEVELS`, in any case.

    Raises:
        ConfigurationError: it is none.
    """
    _asked[asker] = _number_of(name)
    _apply()


def withdraw_level(asker: object) -> None:
    """Forget what a client has asked for; the file tells as much as it did without it."""
    if _asked.pop(asker, None) is not None:
        _apply()


def _number_of(name: str) -> int:
    if name.lower() not in LEVELS:
        raise ConfigurationError(f"{name!r} is no level; it can be {', '.join(LEVELS)}")
    return logging.getLevelNamesMapping()[name.upper()]


def _apply() -> None:
    number = min(_asked.values(), default=_own_level[0])
    # Standard error tells warnings also while the file tells errors alone.
    logging.getLogger("treadle").setLevel(min(number, logging.WARNING))
    for handler in _handlers:
        if handler.get_name() == "file":
            handler.setLevel(number)


def stop_log() -> None:
    """End the log; what waits to be written gets half a second."""
    while _handlers:
        handler = _handlers.pop()
        logging.getLogger().removeHandler(handler)
        handler.close()


_handlers: list[BackgroundLog] = []
_own_level = [logging.INFO]  # of the daemon itself
_asked: dict[object, int] = {}  # by clients


def _begin(handler: BackgroundLog, level: int) -> None:
    handler.setLevel(level)
    handler.addFilter(lambda record: is_ours(record) or record.levelno >= logging.WARNING)
    _handlers.append(handler)
    logging.getLogger().addHandler(handler)


def _introduce(folders: Folders) -> None:
    logger.info(
        "treadle %s begins (process %d, Python %s, %s); data %s, config %s, cache %s",
        __version__,
        os.getpid(),
        sys.version.partition(" ")[0],
        sys.platform,
        folders.data,
        folders.config,
        folders.cache,
    )


def _plain(fd: int) -> Callable[[bytes], None]:
    """Return what writes to a descriptor, which stays its owner's."""

    def write(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]

    return write


def _warn(folder: Path) -> Callable[[OSError], None]:
    def warn(error: OSError) -> None:
        logger.warning("the log in %s cannot be written: %s", folder, error.strerror or error)

    return warn


def _on_stderr(entry: Entry) -> list[str]:
    first, *rest = entry.lines
    return [f"treadle: {entry.level} {first}", *rest]


def _in_file(entry: Entry) -> list[str]:
    """Begin each line alike, so that a search for one process or logger misses no part of it."""
    start = f"{time_of(entry.at)} {os.getpid()} {entry.level.lower()} {entry.logger}: "
    first, *rest = entry.lines
    return [start + first, *(f"{start}| {line}" for line in rest)]
