"""The tool `shell`: a command in the session's folder, waited for or left in the background."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from treadle.process.shell import MOST_COMMAND_BYTES
from treadle.tools.commands.report import news, result
from treadle.tools.commands.running import CannotRun
from treadle.tools.tool import Shown, ToolContext, ToolError, tool

# The field's standard: builds and test suites end by then.
TIMEOUT_SECONDS = 120.0
# Whatever takes longer is looked at now and then, in the background.
MOST_SECONDS = 3600.0

# A server has said by then where it listens, or why it does not.
FIRST_SECONDS = 1.0


async def _preview(arguments: Any, context: ToolContext) -> Shown:
    """Show a person the command; allowing it for the session allows this very one."""
    command: str = arguments.command
    _folder(context)
    _check(command)
    where = " in the background" if arguments.background else ""
    line = f"shell{where}: {command}"
    return Shown(line, covers=line)


@tool(capability="shell", deadline_seconds=None, preview=_preview)
async def shell(
    command: str,
    *,
    timeout_seconds: Annotated[float, Meta(gt=0, le=MOST_SECONDS)] | None = None,
    background: bool = False,
    context: ToolContext,
) -> str:
    """Run a command in bash (sh where there is none, PowerShell on Windows).

    It runs in the working folder, with nothing to read from and no terminal; each call has a
    shell of its own. Both output streams are shown, the end of them where they are long. What
    the command leaves running is stopped when it ends: servers and watchers are run in the
    background, where they go on until they are stopped or the session is closed.

    Args:
        command: the command; it may have several lines.
        timeout_seconds: it is stopped after this; 120 unless it runs in the background.
        background: return at once, with a job to look at by `jobs`.
    """
    folder = _folder(context)
    _check(command)
    try:
        if background:
            return await _begin(command, folder, timeout_seconds, context)
        return await _run(command, folder, timeout_seconds or TIMEOUT_SECONDS, context)
    except CannotRun as error:
        raise ToolError(str(error)) from error
    except OSError as error:
        raise _not_started(error, folder) from error


async def _run(command: str, folder: Path, seconds: float, context: ToolContext) -> str:
    """Run a command to its end.

    Raises:
        ToolError: it failed, or its time was up; with what it printed.
    """
    job = await context.session.jobs.run(
        command, folder, seconds, lambda line: context.progress(line, None, None)
    )
    try:
        await job.wait(None)
    finally:
        await job.stop()
    return result(job)


async def _begin(command: str, folder: Path, seconds: float | None, context: ToolContext) -> str:
    """Start a job; one that ends within a moment is told as any command is."""
    job = await context.session.jobs.begin(command, folder, seconds)
    await job.wait(FIRST_SECONDS)
    return result(job) if job.end else f"[{job.name} runs in the background]\n{news(job)}"


def _folder(context: ToolContext) -> Path:
    """Return where commands run.

    Raises:
        ToolError: nowhere.
    """
    folder = context.sandbox.folder
    if folder is None:
        raise ToolError("No command can be run here: the files are in memory only.")
    return folder


def _check(command: str) -> None:
    """Refuse what no shell can be given.

    Raises:
        ToolError: saying what to do.
    """
    if not command.strip():
        raise ToolError("The command is empty. Send one to run.")
    if "\0" in command:
        raise ToolError("The command holds a NUL character, which no shell takes. Leave it out.")
    try:
        size_bytes = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("The command holds half a character (a lone surrogate).") from None
    if size_bytes > MOST_COMMAND_BYTES:
        raise ToolError(
            f"The command is longer than {MOST_COMMAND_BYTES} bytes, which the system takes at "
            "most. Write it to a file and run that."
        )


def _not_started(error: OSError, folder: Path) -> ToolError:
    """Make the error for a shell that the system did not start."""
    if not folder.is_dir():
        return ToolError("The folder that commands run in is gone; nothing was started.")
    return ToolError(f"The shell could not be started: {error.strerror or error}.")
