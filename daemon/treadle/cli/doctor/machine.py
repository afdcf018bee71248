"""What Treadle stands on: versions, libraries, the terminal. Refuses to know the person's files."""

from __future__ import annotations

import codecs
import platform
import sys
from importlib import metadata

from treadle.cli.doctor.report import Check, Report
from treadle.version import __version__

# What treadle cannot run without; their names as they are installed.
_LIBRARIES = (
    "lsprotocol",
    "msgspec",
    "openai",
    "platformdirs",
    "prompt-toolkit",
    "pygls",
    "pyyaml",
    "rich",
    "typer",
)


def look_at_machine(report: Report) -> None:
    """Tell the versions of everything, and whether the terminal can show any text."""
    libraries = {name: version_of(name) for name in _LIBRARIES}
    report.versions = {
        "treadle": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": libraries,
    }
    missing = [name for name, version in libraries.items() if version is None]
    report.checks += [_libraries(missing), _terminal()]


def version_of(library: str) -> str | None:
    """Return the version of a library; None where it is not installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _libraries(missing: list[str]) -> Check:
    if missing:
        fix = f"{sys.executable} -m pip install --upgrade --force-reinstall treadle"
        return Check("libraries", "problem", f"not installed: {', '.join(missing)}", fix)
    return Check("libraries", "ok", f"all {len(_LIBRARIES)} are installed")


def _terminal() -> Check:
    streams = (sys.stdout, sys.stderr)
    odd = {
        stream.encoding for stream in streams if stream.isatty() and not _is_utf8(stream.encoding)
    }
    if odd:
        shown = ", ".join(sorted(odd))
        detail = f"its encoding is {shown}, so some text is shown as escapes"
        return Check("terminal", "warning", detail, "export PYTHONIOENCODING=utf-8")
    if not any(stream.isatty() for stream in streams):
        return Check("terminal", "ok", f"none: output goes elsewhere, as {sys.stdout.encoding}")
    return Check("terminal", "ok", "UTF-8")


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"
