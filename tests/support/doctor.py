"""`treadle doctor`, run as a person runs it, and what it then says."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.person import stored
from support.waiting import PATIENCE_SECONDS
from treadle.thread.files import make_folder

# The lines of a turn, as the journal writes them.
START = '{"turn":{"number":1,"event":"start"}}'
SAID = '{"role":"user","content":"Hi","turn":1}'
END = '{"turn":{"number":1,"event":"end","stop_reason":"end_turn"}}'


@dataclass
class Told:
    """What one run said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What it said with `--json`."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def wrong(self) -> list[dict[str, str]]:
        """The checks that are not ok."""
        return [check for check in self.json["checks"] if check["status"] != "ok"]

    def check(self, name: str) -> dict[str, str]:
        """Return the one check of this name."""
        named: list[dict[str, str]] = [each for each in self.json["checks"] if each["name"] == name]
        (check,) = named
        return check


def doctor(*words: str, **env: str) -> Told:
    """Run the command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "doctor", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **env},
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return Told(done.returncode, done.stdout, done.stderr)


async def doctor_beside(*words: str, **env: str) -> Told:
    """Run the command while something of the test's own loop is at work."""
    return await asyncio.to_thread(doctor, *words, **env)


def write_thread(instance: str, *lines: str, end: str = "\n") -> Path:
    """Write a thread's file as it stands after its header."""
    path = stored("assistant", instance)
    make_folder(path.parent)
    header = {"thread": {"version": 1, "agent": "assistant", "instance": instance}}
    path.write_text("\n".join([json.dumps(header), *lines]) + end)
    return path
