"""The folders: whether they are there, can be written, have room, and are the person's alone.

Refuses to know what lies in them, but for how large it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from treadle.cli.doctor.report import Check, Report
from treadle.errors import ConfigurationError
from treadle.folders import (
    CACHE_VARIABLE,
    CONFIG_VARIABLE,
    DATA_VARIABLE,
    LOG_VARIABLE,
    Folders,
    find_folders,
)

# With less than this a long conversation can fill the disk while somebody looks away.
FEW_FREE_BYTES = 100_000_000

# A size is told for orientation; a folder with more entries than this is told without.
MAX_ENTRIES = 200_000

# By which variable each of `Folders` is moved: it stands in the command that mends.
_VARIABLES = {
    "config": CONFIG_VARIABLE,
    "data": DATA_VARIABLE,
    "cache": CACHE_VARIABLE,
    "logs": LOG_VARIABLE,
}


def look_at_folders(report: Report) -> Folders | None:
    """Tell about each folder; return them, or None where they lead nowhere."""
    try:
        folders = find_folders()
    except ConfigurationError as error:
        variable = next((name for name in _VARIABLES.values() if name in error.message), "")
        report.checks.append(Check("folders", "problem", error.message, f"unset {variable}"))
        return None
    for name in _VARIABLES:
        _look_at(report, name, getattr(folders, name))
    report.checks += [
        *_changeable(folders.config),
        *(each for name in ("data", "logs") for each in _readable(name, getattr(folders, name))),
    ]
    return folders


def is_open_to_others(mode: int) -> bool:
    """Whether a mode lets others read or enter; Windows has no such modes."""
    return sys.platform != "win32" and bool(mode & 0o077)


def shown_size(size_bytes: int) -> str:
    """Return a size as people read it."""
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    size = size_bytes / 1000
    for unit in ("kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _look_at(report: Report, name: str, path: Path) -> None:
    standing = _nearest(path)
    free_bytes = shutil.disk_usage(standing).free
    is_writable = standing.is_dir() and os.access(standing, os.W_OK | os.X_OK)
    found: dict[str, Any] = {
        "path": str(path),
        "exists": path.exists(),
        "writable": is_writable,
        "bytes": _size(path),
        "freeBytes": free_bytes,
    }
    report.folders[name] = found
    report.checks.append(_folder(f"folder/{name}", path, standing, found, _VARIABLES[name]))


def _folder(name: str, path: Path, standing: Path, found: dict[str, Any], variable: str) -> Check:
    if not path.is_absolute():
        detail = f"{path} is no absolute path: this user has no home folder"
        return Check(name, "problem", detail, f"export HOME=… or {variable}=…")
    if not standing.is_dir():
        fix = f"mv {_quoted(standing)} {_quoted(standing)}.old"
        return Check(name, "problem", f"{standing} is no folder", fix)
    if not found["writable"]:
        detail = f"{standing} cannot be written"
        fix = f"chmod u+rwx {_quoted(standing)}, or set {variable} to another folder"
        return Check(name, "problem", detail, fix)
    if found["freeBytes"] < FEW_FREE_BYTES:
        detail = f"{path} has {shown_size(found['freeBytes'])} left on its disk"
        return Check(name, "warning", detail, f"df -h {_quoted(standing)}, and free some space")
    if not found["exists"]:
        return Check(name, "ok", f"{path} is not there yet; it is made when it is needed")
    size = "" if found["bytes"] is None else f"{shown_size(found['bytes'])}, "
    return Check(name, "ok", f"{path} ({size}{shown_size(found['freeBytes'])} free)")


def _nearest(path: Path) -> Path:
    """Return the path, or what is there of those above it."""
    return next(each for each in (path, *path.parents) if each.exists() or each == each.parent)


def _size(folder: Path) -> int | None:
    """Return how much lies in a folder; None where that would take long to tell."""
    total, entries = 0, 0
    for parent, _folders, files in os.walk(folder):
        entries += 1 + len(files)
        if entries > MAX_ENTRIES:
            return None
        for file in files:
            try:
                total += os.lstat(os.path.join(parent, file)).st_size  # noqa: PTH118 - a Path for each of so many files costs seconds
            except OSError:
                # It went while we looked.
                continue
    return total


def _changeable(config: Path) -> Iterator[Check]:
    """Find what others can change of what an agent is told and may do."""
    if sys.platform == "win32":
        return
    for path in (config, config / "agents", config / "config.toml", *config.glob("agents/*.md")):
        mode = _mode(path)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            detail = f"others can change {path}, which says what agents may do"
            yield Check("folder/config/modes", "warning", detail, f"chmod go-w {_quoted(path)}")


def _readable(name: str, folder: Path) -> Iterator[Check]:
    """Find what others can read of what was said; a closed folder closes what is in it."""
    private = folder / "threads" if name == "data" else folder
    above = [folder, private] if name == "data" else [folder]
    if not private.exists() or not all(is_open_to_others(_mode(each)) for each in above):
        return
    fix = f"chmod -R go-rwx {_quoted(private)}"
    yield Check(f"folder/{name}/modes", "warning", f"others can look into {private}", fix)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
