"""Starting a server's program: what it is called, where it runs, what it is given.

Owns the words that say why it does not start. Refuses to know what it says once it runs.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.expansion import CannotExpand, expanded, server_environment
from treadle.process.child import Child
from treadle.process.login_path import login_path
from treadle.process.shell import DEFAULT_PATH
from treadle.secrets import hold


class CannotStart(Exception):
    """The program cannot be started; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A server that can be connected with: its declaration, expanded, and its process if any."""

    declaration: ServerDeclaration
    child: Child | None


async def launch(declaration: ServerDeclaration, folder: Path | None) -> Launched:
    """Start a server's program; of one that has a url, only read what it is told.

    Args:
        declaration: as it was declared.
        folder: where it runs, unless it is declared to run elsewhere.

    Raises:
        CannotStart: it cannot be started.
    """
    ready = filled(declaration)
    if ready.command is None:
        return Launched(ready, None)
    where = Path(ready.cwd) if ready.cwd else folder or Path.home()
    program, path = await find_program(ready.command)
    if program is None:
        raise CannotStart(
            f"there is no program {ready.command!r}; write its whole path, or put its folder on "
            f"the daemon's PATH, which is {path}"
        )
    try:
        child = await Child.start(
            [program, *ready.args],
            env=server_environment(ready, path),
            cwd=where,
            rung_seconds=ready.stop_seconds,
        )
    except OSError as error:
        what = error.strerror or type(error).__name__
        if not await asyncio.to_thread(where.is_dir):
            what = f"there is no folder {str(where)!r}"
        raise CannotStart(f"{ready.command!r} cannot be started: {what}") from error
    return Launched(ready, child)


def filled(declaration: ServerDeclaration) -> ServerDeclaration:
    """Return a declaration as it is to be started now: expanded, its token among its headers.

    Raises:
        CannotStart: a variable is not set, or makes something that cannot be.
    """
    try:
        ready = expanded(declaration, os.environ)
    except CannotExpand as error:
        raise CannotStart(str(error)) from error
    return ready if ready.token_env is None else _with_token(ready, ready.token_env)


async def find_program(command: str) -> tuple[str | None, str]:
    """Look for a program where the daemon finds programs.

    Args:
        command: its name or its path.

    Returns:
        Where it is, None where it is nowhere; and the PATH that was looked through.
    """
    path = os.environ.get("PATH", DEFAULT_PATH)
    if found := shutil.which(command, path=path):
        return found, path
    # A daemon that was started from a desktop has a bare PATH.
    path = await login_path()
    return shutil.which(command, path=path), path


def _with_token(declaration: ServerDeclaration, name: str) -> ServerDeclaration:
    token = os.environ.get(name, "").strip()
    if not token:
        raise CannotStart(f"the variable {name}, which holds its token, is not set")
    hold(name)
    headers = (*declaration.headers, ("Authorization", f"Bearer {token}"))
    return replace(declaration, headers=headers)
