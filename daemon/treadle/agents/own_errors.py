"""What code in a person's own files raises, in words: which file, which line, what.

Refuses to know when the code runs.
"""

from __future__ import annotations

from pathlib import Path

from treadle.errors import ConfigurationError, InvalidAgent
from treadle.secrets import known
from treadle.thread.message import clean

# Enough of an exception's own words to recognise it.
_SAID_CHARACTERS = 300


def broken(path: Path, problem: str, line: int | None = None) -> InvalidAgent:
    """Make the error for an agent's file that cannot be used."""
    where = path.name if line is None else f"{path.name}, line {line}"
    return InvalidAgent(f"{where}: {problem}", path=str(path))


def said_by(error: BaseException) -> str:
    """Tell an exception in words, without secrets, on one line."""
    if isinstance(error, SystemExit):
        return "it wants to end the process (SystemExit); an agent's file only describes an agent"
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        said = ""
    said = " ".join(clean(known().redact(said)).split())[:_SAID_CHARACTERS]
    if isinstance(error, ConfigurationError):
        return said
    if isinstance(error, SyntaxError):
        return f"this is no Python: {said}"
    kind = type(error).__name__
    return f"{kind}: {said}" if said else kind


def line_in(error: BaseException, path: Path) -> int | None:
    """Return the last line of a file that an exception came through."""
    file = str(path)
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    line = None
    step = error.__traceback__
    while step is not None:
        line = step.tb_lineno if step.tb_frame.f_code.co_filename == file else line
        step = step.tb_next
    return line
