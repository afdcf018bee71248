"""What a daemon was given stays hidden from the commands that it runs."""

from __future__ import annotations

import os
import subprocess
import sys

from support.process import linux_only
from support.waiting import PATIENCE_SECONDS

# Runs one command in a process of its own, then tells whether others may look into that process.
RUNS_A_COMMAND = """
import asyncio, ctypes, sys
from pathlib import Path
from treadle.process.command import Command

def dumpable():
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)

async def main():
    before = dumpable()
    command = await Command.start(["/bin/cat", "/proc/self/environ"], env={"A": "b"}, cwd=Path("/"))
    said = await command.output.read()
    await command.end(0)
    print(before, dumpable(), said.startswith(b"A=b"))

asyncio.run(main())
"""


@linux_only
def test_a_process_that_runs_commands_is_hidden_from_them_and_they_are_as_ever() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNS_A_COMMAND],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=os.environ,
    )
    assert (done.stdout, done.stderr) == ("1 0 True\n", "")
