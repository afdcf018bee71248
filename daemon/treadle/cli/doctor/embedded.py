"""The embedded model on this machine: its runtime, its file, and what a fetch has left.

Refuses to know whether it answers well; `answers` asks it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from treadle.cli.doctor.machine import version_of
from treadle.cli.doctor.places import shown_size
from treadle.cli.doctor.report import Check, Report, Status
from treadle.errors import NoModel
from treadle.models.embedded.fetch import part_path
from treadle.models.embedded.files import (
    EMBEDDED_FILE,
    FILE_VARIABLE,
    cached_path,
    model_path,
    own_path,
)

# The extra of the same name in pyproject.toml.
_GET_RUNTIME = "pip install 'treadle[local]'"
# Also what mends a file that is there and damaged: it is fetched anew.
_PULL = "treadle model pull"


def look_at_embedded(report: Report, cache: Path, *, is_needed: bool) -> None:
    """Tell whether the embedded model can run.

    Args:
        report: gets what was found.
        cache: Treadle's cache folder.
        is_needed: it answers for some agent; only then its bytes are read, which takes a second
            or two, and only then it is a problem that it cannot run.
    """
    runtime = importlib.util.find_spec("xllamacpp") is not None
    try:
        path, problem = model_path(cache), None
    except NoModel as error:
        path, problem = None, error
    is_whole = None if path is None or not is_needed or own_path() else _is_whole(path)
    report.embedded = {
        "needed": is_needed,
        "runtime": version_of("xllamacpp") if runtime else None,
        "file": None if path is None else str(path),
        "whole": is_whole,
        "canRun": runtime and path is not None and is_whole is not False,
    }
    if problem is not None:
        status = Check("embedded", "problem", problem.message, f"unset {FILE_VARIABLE}")
        report.checks.append(status)
    else:
        report.checks.append(_embedded(report, path, cache))
    report.checks += _left(cache)


def _embedded(report: Report, path: Path | None, cache: Path) -> Check:
    found = report.embedded
    broken: Status = "problem" if found["needed"] else "ok"
    unneeded = "" if found["needed"] else ", and no agent needs it"
    if path is None and cached_path(cache).exists():
        detail = f"{cached_path(cache)} has not the size it should have{unneeded}"
        return Check("embedded", broken, detail, _PULL)
    if path is None:
        detail = f"its file is not on this machine ({EMBEDDED_FILE.size}){unneeded}"
        return Check("embedded", broken, detail, _PULL if found["needed"] else None)
    if found["whole"] is False:
        return Check("embedded", broken, f"{path} holds other bytes than it should", _PULL)
    if not found["runtime"]:
        detail = f"its runtime is not installed{unneeded}"
        return Check("embedded", broken, detail, _GET_RUNTIME if found["needed"] else None)
    return Check("embedded", "ok", f"{path} and its runtime {found['runtime']} are there{unneeded}")


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == EMBEDDED_FILE.sha256
    except OSError:
        return False


def _left(cache: Path) -> list[Check]:
    """Find what an interrupted fetch has left."""
    part = part_path(cached_path(cache))
    try:
        size = shown_size(part.stat().st_size)
    except OSError:
        return []
    detail = f"{part}: {size} of a fetch that was interrupted"
    return [Check("embedded/part", "warning", detail, f"{_PULL}, or treadle model remove")]
