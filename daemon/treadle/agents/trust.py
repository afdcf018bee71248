"""Which workspaces the person trusts, and with which agents.

Trust is given to what was there: a folder, by its real path, and a digest of the agents in it.
When those change, as a `git pull` may change them, the person is asked again. A file for each
folder lies in `trusted/` of the config folder, so that two processes never write the same one.
Owns these files. Refuses to know how a digest is made. Blocks on the disk for a moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from treadle.agents.ownership import why_not_ours
from treadle.errors import ConfigurationError
from treadle.thread.files import make_folder, open_ours, sync, sync_folder, write_whole
from treadle.thread.message import now

TRUST_FOLDER = "trusted"

# 128 bits: no two folders meet.
_HASH_DIGITS = 32

# A path and a digest; what is longer is none of ours.
_LIMIT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Grant:
    """A folder that the person trusts, with which agents in it, and since when."""

    path: str
    digest: str
    at: str


class Trust:
    """The folders that the person trusts.

    Args:
        config: the config folder, which need not exist.
    """

    def __init__(self, config: Path) -> None:
        self._config = config
        self._folder = config / TRUST_FOLDER

    def holds(self, folder: Path, digest: str) -> bool:
        """Whether a folder is trusted as it is now.

        Args:
            folder: its real path.
            digest: that of the agents in it.
        """
        grant = self.of(folder)
        return grant is not None and grant.digest == digest

    def of(self, folder: Path) -> Grant | None:
        """Return what was trusted of a folder, if anything was."""
        grant = self._read(self._file(folder))
        return grant if grant is not None and grant.path == str(folder) else None

    def list(self) -> list[Grant]:
        """Return everything that is trusted, by path; files that are none of ours count nothing."""
        grants = [self._read(path) for path in self._folder.glob("*.json")]
        return sorted((each for each in grants if each), key=lambda grant: grant.path)

    def give(self, folder: Path, digest: str) -> None:
        """Trust a folder as it is now.

        Args:
            folder: its real path.
            digest: that of the agents in it.

        Raises:
            ConfigurationError: others could write to what this is kept in, so it is worth nothing.
            OSError: it cannot be kept.
        """
        make_folder(self._folder)
        path = self._file(folder)
        new = path.with_suffix(f".{os.getpid()}.new")
        grant = Grant(str(folder), digest, now())
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        descriptor, _ = open_ours(new, os.O_WRONLY)
        try:
            write_whole(descriptor, json.dumps(asdict(grant), indent=1).encode() + b"\n")
            sync(descriptor)
        finally:
            os.close(descriptor)
        new.replace(path)
        sync_folder(self._folder)
        if why := why_not_ours(path, self._config):
            path.unlink()
            raise ConfigurationError(f"trust cannot be kept safe: {why}")

    def take_back(self, folder: Path) -> bool:
        """Trust a folder no more; return whether it was trusted.

        Raises:
            OSError: its file cannot be removed.
        """
        try:
            self._file(folder).unlink()
        except FileNotFoundError:
            return False
        sync_folder(self._folder)
        return True

    def _file(self, folder: Path) -> Path:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:_HASH_DIGITS]
        return self._folder / f"{name}.json"

    def _read(self, path: Path) -> Grant | None:
        """Read a grant; what cannot be read, or may be another's words, grants nothing."""
        try:
            if why_not_ours(path, self._config) is not None:
                return None
            with path.open("rb") as file:
                grant = Grant(**json.loads(file.read(_LIMIT_BYTES)))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        is_one = all(isinstance(each, str) for each in (grant.path, grant.digest, grant.at))
        return grant if is_one and self._file(Path(grant.path)) == path else None
