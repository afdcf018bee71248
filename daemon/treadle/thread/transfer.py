"""Plain messages in and out: a file of them, one JSON line each, such as other programs write.

Owns what such a file may hold. What goes in comes out equal, unknown keys included.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from treadle.errors import ConfigurationError, UnknownSession
from treadle.thread.fork import conversation_lines
from treadle.thread.lines import BYTE_ORDER_MARK, UNREADABLE, decode, opened
from treadle.thread.message import LINE_START, Message, decode_line, encode_line, now
from treadle.thread.records import FORMAT_VERSION, ThreadRecord, encode_record
from treadle.thread.redaction import without_secrets
from treadle.thread.replay import skim
from treadle.thread.whole import new_thread

# A file with more bad lines is another kind of file: the first ones say enough.
REPORTED_LINES = 20


@dataclass(slots=True)
class Imported:
    """What became of a file's lines.

    Args:
        messages: how many are in the thread.
        instructions: how many system messages were left out, which no thread keeps.
        redacted: how many messages had secrets, which are kept without them.
        bad_lines: those that were no messages, from 1, with the reason.
    """

    messages: int = 0
    instructions: int = 0
    redacted: int = 0
    bad_lines: list[tuple[int, str]] = field(default_factory=list)


def export_lines(path: Path) -> Iterator[bytes]:
    """Yield the messages of a thread's conversation as they are stored, without line ends.

    What a compaction gave up is there, what was rewound is not. System messages never are.
    Needs no lock; whoever wants the last lines of a thread that could not be written calls
    `opening.bring_back` first.

    Raises:
        UnknownSession: there is no such thread.
        ThreadUnreadable: it cannot be read.
    """
    try:
        with opened(path) as file:
            for _, line, message in conversation_lines(file, skim(path)):
                if message.role != "system":
                    yield line
    except FileNotFoundError:
        raise UnknownSession(f"there is no thread {path}") from None


def import_file(
    source: Path,
    into: Path,
    *,
    pair: tuple[str, str] = ("", ""),
    skips_bad_lines: bool = False,
) -> Imported:
    """Make a thread of a file of plain messages; it blocks.

    Args:
        source: the file.
        into: the file of the thread to make.
        pair: its agent and instance.
        skips_bad_lines: leave out what is no message, instead of refusing the file.

    Raises:
        ConfigurationError: the file cannot be read, or holds lines that are no messages; the
            first of them are named, and nothing was made.
        ThreadExists: there is a thread already at `into`.
        ThreadLocked: somebody holds that one.
        StorageDegraded: it could not be written; nothing is left of it.
    """
    agent, instance = pair
    imported = Imported()
    with _opened(source) as file, new_thread(into) as target:
        header = ThreadRecord(FORMAT_VERSION, agent, instance, now())
        target.write(encode_record(header) + b"\n")
        for line in _messages(file, imported):
            target.write(line + b"\n")
        if imported.bad_lines and not skips_bad_lines:
            raise _refused(source, imported.bad_lines)
    return imported


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[BinaryIO]:
    """Open the file to import.

    Raises:
        ConfigurationError: it cannot be read, or is no regular file.
    """
    try:
        # Asked first: a pipe may block for ever, and a device may have no end.
        if not stat.S_ISREG(source.stat().st_mode):
            raise ConfigurationError(f"{source} is no file; name one of messages")
        file = source.open("rb")
    except OSError as error:
        raise ConfigurationError(f"cannot read {source}: {error.strerror or error}") from error
    with file:
        yield file


def _messages(file: BinaryIO, imported: Imported) -> Iterator[bytes]:
    """Yield the lines to store, and count."""
    for number, raw in enumerate(file, 1):
        line = (raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw).strip()
        if not line:
            continue
        try:
            message = decode(line)
        except UNREADABLE as error:
            imported.bad_lines.append((number, str(error) or type(error).__name__))
            continue
        if not isinstance(message, Message):
            imported.bad_lines.append((number, "it has no role, so it is no message"))
        elif message.role == "system":
            imported.instructions += 1
        else:
            imported.messages += 1
            # A line that begins otherwise would not be counted in lists.
            plain = line if line.startswith(LINE_START) else encode_line(message)
            kept = without_secrets(plain)
            is_same = kept == plain or decode_line(kept) == decode_line(plain)
            imported.redacted += not is_same
            yield plain if is_same else kept


def _refused(source: Path, bad_lines: list[tuple[int, str]]) -> ConfigurationError:
    told = [f"line {number}: {why}" for number, why in bad_lines[:REPORTED_LINES]]
    if len(bad_lines) > REPORTED_LINES:
        told.append(f"and {len(bad_lines) - REPORTED_LINES} more")
    return ConfigurationError(
        f"{source} holds lines that are no messages, and nothing was imported; mend them or "
        f"have them skipped. {'; '.join(told)}",
        lines=[number for number, _ in bad_lines[:REPORTED_LINES]],
    )
