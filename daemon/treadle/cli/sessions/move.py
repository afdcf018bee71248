"""`treadle sessions export`, `import` and `fork`: what was said, taken elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from treadle.agents.catalogue import Catalogue
from treadle.cli import exit_codes
from treadle.cli.chat.wording import count
from treadle.cli.options import DEFAULT_AGENT, DEFAULT_INSTANCE, AgentOption, InstanceOption
from treadle.cli.sessions.stored import thread_file
from treadle.cli.streams import say, tell
from treadle.errors import ConfigurationError, RequestFailed
from treadle.folders import find_folders
from treadle.thread import unsaved
from treadle.thread.files import FILE_MODE, O_BINARY
from treadle.thread.fork import fork as fork_thread
from treadle.thread.opening import bring_back
from treadle.thread.transfer import Imported, export_lines, import_file


def export(
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new file; else standard output.")
    ] = None,
) -> None:
    """Write the messages of a session, one JSON line each, and nothing else.

    What was rewound is left out, what a compaction gave up is there. A session that is open, or
    running, is exported as it stands. Exit code 1 where its last lines could not be had.
    """
    path = thread_file(agent, instance)
    is_whole = _is_whole(path)
    if output is not None:
        with _new_file(output) as file:
            tell(f"{count(_write(path, file), 'message')} in {output}")
    elif sys.stdout.isatty():
        for line in export_lines(path):
            say(line.decode(errors="replace"))
    else:
        # As they are stored, whatever this process takes for the encoding of its output.
        _write(path, sys.stdout.buffer)
    if not is_whole:
        raise typer.Exit(exit_codes.FAILED)


def import_(
    file: Annotated[Path, typer.Argument(help="Messages, one JSON line each.")],
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave out what is no message.")
    ] = False,
) -> None:
    """Begin a session with the messages of a file, such as an export or a log of another program.

    Instructions (role system) are left out: a session has those of its agent.
    """
    path = thread_file(agent, instance)
    # What may not enter a thread is named there.
    Catalogue(find_folders().config).config()
    imported = import_file(file, path, pair=(agent, instance), skips_bad_lines=skip_bad_lines)
    for number, why in imported.bad_lines:
        tell(f"{file}:{number}: left out: {why}")
    tell(_told(imported))


def fork(
    into: Annotated[str, typer.Argument(help="The instance to begin.")],
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    at: Annotated[
        int | None,
        typer.Option("--at", min=-1, help="The last message to copy, as `show` numbers them."),
    ] = None,
) -> None:
    """Begin a session of the same agent as a copy of another one."""
    source, target = thread_file(agent, instance), thread_file(agent, into, field="into")
    copied = fork_thread(source, target, at=at, origin=(agent, instance), pair=(agent, into))
    for name in copied.lost_blobs:
        tell(f"left out, because the session has lost it: {name}")
    tell(f"{into} begins with {count(copied.messages, 'message')}")


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a private file, as what was said to an agent is private; a failure leaves nothing of it.

    Raises:
        ConfigurationError: it is there already, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, FILE_MODE)
    except FileExistsError:
        raise ConfigurationError(
            f"{path} is there already; remove it or name another file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _is_whole(path: Path) -> bool:
    """Bring back what of a thread had to be left elsewhere; where that cannot be, say so."""
    try:
        bring_back(path)
    except RequestFailed as error:
        tell(f"treadle: {error.message}")
    missing = unsaved.waiting_for(path)
    for each in missing:
        tell(f"treadle: MISSING here: the last {each.counted} of the session; see {each.place}")
    return not missing


def _write(path: Path, file: BinaryIO) -> int:
    """Write a thread's messages; return how many."""
    written = 0
    for line in export_lines(path):
        file.write(line + b"\n")
        written += 1
    file.flush()
    return written


def _told(imported: Imported) -> str:
    told = [f"{count(imported.messages, 'message')} imported"]
    if imported.redacted:
        told.append(f"{imported.redacted} of them without the secrets that they held")
    if imported.instructions:
        told.append(f"{imported.instructions} with instructions left out")
    if imported.bad_lines:
        told.append(f"{count(len(imported.bad_lines), 'bad line')} left out")
    return ", ".join(told)
