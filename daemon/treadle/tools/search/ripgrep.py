"""`ripgrep`, where a person has it: which of some files hold a match, many times as fast as we.

Owns how it is called. It is told which files to look at and only names some of them; what is
shown of a file is read through the sandbox, so nothing it says can show anything else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.sandbox.sandbox import READ_LIMIT_BYTES

if TYPE_CHECKING:
    from treadle.process.command import Command

logger = logging.getLogger(__name__)

# What the arguments of one call may take: Windows allows 32 KiB for all, Linux 128 KiB for one
# and more for all; the rest is for the environment and the other arguments.
_ARGUMENTS_CHARACTERS = 24_000 if sys.platform == "win32" else 96_000

# One read of its pipe.
_READ_BYTES = 64 * 1024

# Nothing of the person's configuration counts, no link is followed, every file that is named is
# looked at; where it is odd (a file that cannot be read), it fails and we look ourselves.
_OPTIONS = (
    "--no-config",
    "--no-follow",
    "--no-ignore",
    "--hidden",
    "--files-with-matches",
    "--null",
    "--crlf",
    "--color=never",
    "--no-messages",
)

# What is no UTF-8 is Latin-1 to us and bytes to it: only plain letters are found alike in both.
_IS_PLAIN = re.compile(r"[\w \-=:;,/'\"<>@#%&!~`]*", re.ASCII)
# A line that is no UTF-8; its file is to be looked at, whether it matches or not.
_NO_UTF_8 = r"(?-u:(?:^|[\x00-\x7F])[\x80-\xC1]|[\xC2-\xF4](?:[\x00-\x7F\xC0-\xFF]|$)|[\xF5-\xFF])"


def installed(folder: Path) -> str | None:
    """Return where ripgrep is; one in the folder that is searched is not trusted."""
    program = shutil.which("rg")
    if program is None or not Path(program).is_absolute():
        return None
    return None if Path(program).is_relative_to(folder) else program


def batches(places: Sequence[str]) -> Iterator[list[str]]:
    """Split files so that each call can take its share."""
    batch: list[str] = []
    length = 0
    for place in places:
        length += len(os.fsencode(place)) + 3
        if length > _ARGUMENTS_CHARACTERS and batch:
            yield batch
            batch, length = [], len(os.fsencode(place)) + 3
        batch.append(place)
    if batch:
        yield batch


async def with_matches(
    program: str,
    pattern: str,
    *,
    ignore_case: bool,
    folder: Path,
    places: Sequence[str],
    until: float,
) -> set[str] | None:
    """Return those of some files that hold a match.

    Args:
        program: where ripgrep is.
        pattern: the regular expression.
        ignore_case: whether letters match in both cases.
        folder: what the places count from.
        places: the files; no more than one of `batches`.
        until: when to give up, by the monotonic clock.

    Returns:
        The files, and those that are too large for whoever reads them; None where it cannot
        tell, so that all of them must be looked at.

    Raises:
        TimeoutError: it is that late.
    """
    from treadle.process.command import Command

    large = await asyncio.to_thread(_too_large, folder, places)
    by_argument = {f"./{place}": place for place in places if place not in large}
    if not by_argument:
        # Without a file it would wait for its standard input.
        return large
    patterns = [pattern] if _IS_PLAIN.fullmatch(pattern) else [pattern, _NO_UTF_8]
    options = [
        *_OPTIONS,
        "--ignore-case" if ignore_case else "--case-sensitive",
        *(f"--regexp={each}" for each in patterns),
    ]
    try:
        command = await Command.start(
            [program, *options, "--", *by_argument], env=_environment(), cwd=folder
        )
    except (OSError, ValueError) as error:
        logger.warning("ripgrep does not start: %s", error)
        return None
    said, exit_code = await _to_its_end(command, until)
    # It says 1 where nothing matches, 2 where something went wrong.
    if exit_code not in (0, 1):
        return None
    names = (os.fsdecode(name) for name in said.split(b"\0") if name)
    return large | {by_argument[name] for name in names if name in by_argument}


def _too_large(folder: Path, places: Sequence[str]) -> set[str]:
    """Return the files that cannot be read whole: the image of a disk takes minutes to search."""
    large: set[str] = set()
    for place in places:
        with suppress(OSError, ValueError):
            if (folder / place).lstat().st_size > READ_LIMIT_BYTES:
                large.add(place)
    return large


async def _to_its_end(command: Command, until: float) -> tuple[bytes, int | None]:
    """Return what ripgrep prints and its exit code; it is gone on every way out.

    Raises:
        TimeoutError: it is that late.
    """
    said = bytearray()
    try:
        async with asyncio.timeout(until - time.monotonic()):
            while piece := await command.output.read(_READ_BYTES):
                said += piece
            await command.exited.wait()
            return bytes(said), command.exit_code
    finally:
        # It has nothing to save: no reason to wait for it to end by itself.
        await command.end(0)


def _environment() -> Mapping[str, str]:
    """Return what a program needs to start: nothing, but on Windows the system's own folder."""
    return {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
