"""What a chat keeps between runs beside the threads: what was typed, and what was never sent.

Owns the files in `chat/` of the data folder: private, bounded, and safe while several chats run.
Refuses to know who types. A disk that takes nothing costs the history, never the chat.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

from treadle.errors import TreadleError
from treadle.thread.files import make_folder, open_private
from treadle.thread.lock import ThreadLock
from treadle.thread.paths import encode_name

# Beside `threads/`, so that one folder holds all that a person has said.
CHAT_FOLDER = "chat"
# Some ten thousand prompts; twice as much is kept, half of it in the older file.
HISTORY_BYTES = 1 << 20
# What is longer was pasted, and is hardly wanted again.
ENTRY_BYTES = 64 << 10


class History:
    """What was typed, in all sessions, oldest first.

    An entry is one line, appended in one write, so that two chats never mix theirs. A file that
    has grown too large becomes the older one, by its name alone: nobody's entry is rewritten.

    Args:
        data: the data folder.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / CHAT_FOLDER / "history.jsonl"
        self._older = self._path.with_name("history.older.jsonl")

    def load(self) -> list[str]:
        """Return every entry that can be read."""
        return [entry for path in (self._older, self._path) for entry in _entries(path)]

    def append(self, entry: str) -> None:
        """Add an entry; one that is far too long is left out."""
        line = json.dumps(entry).encode() + b"\n"
        if len(line) > ENTRY_BYTES:
            return
        with contextlib.suppress(OSError):
            make_folder(self._path.parent)
            _require_no_pipe(self._path)
            self._rotate()
            descriptor, _made = open_private(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def _rotate(self) -> None:
        if not self._path.exists() or self._path.stat().st_size < HISTORY_BYTES:
            return
        # Only one chat renames; whoever else finds it too large right then just appends.
        with contextlib.suppress(TreadleError):
            lock = ThreadLock.acquire(self._path)
            try:
                if self._path.stat().st_size >= HISTORY_BYTES:
                    self._path.replace(self._older)
            finally:
                lock.release()


class Draft:
    """The words for one session that were never sent.

    Args:
        data: the data folder.
        agent: whose session it is.
        instance: which of them.
    """

    def __init__(self, data: Path, agent: str, instance: str) -> None:
        folder = data / CHAT_FOLDER / "drafts" / encode_name(agent)
        self._path = folder / (encode_name(instance) + ".txt")
        self._saved: str | None = None

    def load(self) -> str:
        """Return them, or nothing."""
        try:
            self._saved = _read(self._path).decode("utf-8", "replace")
        except OSError:
            self._saved = ""
        return self._saved

    def save(self, text: str) -> None:
        """Keep them in place of what was kept before; no words, no file."""
        if text == self._saved:
            return
        with contextlib.suppress(OSError):
            if text.strip():
                self._write(text)
            else:
                self._path.unlink(missing_ok=True)
            self._saved = text

    def _write(self, text: str) -> None:
        make_folder(self._path.parent)
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        descriptor, _made = open_private(beside, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        beside.replace(self._path)


def _entries(path: Path) -> list[str]:
    try:
        lines = _read(path).split(b"\n")
    except OSError:
        return []
    entries = []
    for line in lines:
        # What is nested without end is no entry of ours either.
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, str):
                entries.append(entry)
    return entries


def _read(path: Path) -> bytes:
    """Read a file of ours.

    Raises:
        OSError: it cannot be read, or is something that might never end, such as a pipe.
    """
    _require_no_pipe(path)
    return path.read_bytes()


def _require_no_pipe(path: Path) -> None:
    """Refuse to open what would be waited for.

    Raises:
        OSError: there is something at the path, and it is no regular file.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
