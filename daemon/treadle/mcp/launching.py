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
    try:
        ready = expanded(declaration, os.environ)
    except CannotExpand as error:
        raise CannotStart(str(error)) from error
    if ready.command is None:
        return Launched(_with_token(ready), None)
    where = _folder(ready, folder)
    path = os.environ.get("PATH", DEFAULT_PATH)
    program = shutil.which(ready.command, path=path)
    if program is None:
        # A program that was started from a desktop has a bare PATH.
        path = await login_path()
        program = shutil.which(ready.command, path=path)
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


def _folder(declaration: ServerDeclaration, folder: Path | None) -> Path:
    return Path(declaration.cwd).expanduser() if declaration.cwd else folder or Path.home()


def _with_token(declaration: ServerDeclaration) -> ServerDeclaration:
    """Return a declaration whose requests carry its token.

    Raises:
        CannotStart: its variable is not set.
    """
    name = declaration.token_env
    if name is None:
        return declaration
    token = os.environ.get(name, "").strip()
    if not token:
        raise CannotStart(f"the variable {name}, which holds its token, is not set")
    hold(name)
    headers = (*declaration.headers, ("Authorization", f"Bearer {token}"))
    return replace(declaration, headers=headers)
