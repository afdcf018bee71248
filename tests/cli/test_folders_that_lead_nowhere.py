"""A folder that cannot be is told in one line, by every command alike."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Far more than any command takes on a busy machine.
PATIENCE_SECONDS = 60

NOBODY = "~nobody-has-this-name/treadle"


@pytest.mark.skipif(os.name == "nt", reason="Windows takes any name for a neighbour's home")
@pytest.mark.parametrize("variable", ["TREADLE_DATA_DIR", "TREADLE_CONFIG_DIR"])
@pytest.mark.parametrize("words", [("serve",), ("prompt", "hi"), ("agents", "list")])
def test_the_home_of_nobody_is_named(variable: str, words: tuple[str, ...]) -> None:
    done = _run(*words, env={variable: NOBODY})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"treadle: {variable}, {NOBODY!r}, leads nowhere (")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows takes any name for a neighbour's home")
def test_a_flag_that_leads_nowhere_is_named() -> None:
    done = _run("serve", "--data-dir", NOBODY)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"treadle: the folder given, {NOBODY!r}, leads nowhere (")


def _run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "treadle", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, **(env or {})},
    )
