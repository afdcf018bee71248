"""What a person sees of retention: `treadle sessions expire`, and the doctor's line about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.person import stored, write_config
from support.waiting import PATIENCE_SECONDS
from treadle.thread.lock import ThreadLock

DAY_SECONDS = 86_400


def treadle(*words: str) -> tuple[int, str, str]:
    """Run one command to its end; return its code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three sessions that were used 90, 40 and 2 days ago."""
    script = tmp_path / "replies.jsonl"
    script.write_text('{"echo": true}\n')
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{script}")
    paths = {}
    for days, instance in ((90, "oldest"), (40, "old"), (2, "new")):
        assert treadle("prompt", "--instance", instance, "Hello")[0] == 0
        paths[instance] = stored("assistant", instance)
        at = time.time() - days * DAY_SECONDS
        os.utime(paths[instance], (at, at))
    return paths


def there(sessions: dict[str, Path]) -> list[str]:
    return [instance for instance, path in sessions.items() if path.exists()]


def test_without_retention_nothing_expires(sessions: dict[str, Path]) -> None:
    told = (0, "", "nothing expires: config.toml sets neither days nor threads in [retention]\n")
    assert treadle("sessions", "expire", "--dry-run") == told
    assert treadle("sessions", "expire") == told
    assert there(sessions) == ["oldest", "old", "new"]


def test_a_dry_run_lists_what_would_go_and_why_the_rest_stays(sessions: dict[str, Path]) -> None:
    write_config("[retention]\ndays = 30\n")
    lock = ThreadLock.acquire(sessions["old"])
    code, out, err = treadle("sessions", "expire", "--dry-run")
    _, as_json, _ = treadle("sessions", "expire", "--dry-run", "--json")
    lock.release()
    stays = f"process {os.getpid()} holds it"
    oldest, old = out.splitlines()
    assert (code, err) == (0, "1 session would be deleted\n")
    assert oldest.endswith("  assistant  oldest")
    assert old.endswith(f"  assistant  old  stays: {stays}")
    told = json.loads(as_json)
    assert oldest == f"{told[0].pop('updatedAt')}  assistant  oldest"
    assert old.startswith(told[1].pop("updatedAt"))
    pair = {"agent": "assistant"}
    assert told == [
        {**pair, "instance": "oldest", "path": str(sessions["oldest"]), "expires": True},
        {
            **pair,
            "instance": "old",
            "path": str(sessions["old"]),
            "expires": False,
            "stays": stays,
        },
    ]
    assert there(sessions) == ["oldest", "old", "new"]


def test_without_dry_run_they_are_deleted_at_once(sessions: dict[str, Path]) -> None:
    write_config("[retention]\nthreads = 1\n")
    code, out, err = treadle("sessions", "expire")
    assert (code, len(out.splitlines()), err) == (0, 2, "2 sessions deleted\n")
    assert there(sessions) == ["new"]
    assert treadle("sessions", "expire") == (0, "", "0 sessions deleted\n")


def test_a_broken_configuration_deletes_nothing(sessions: dict[str, Path]) -> None:
    write_config("[retention]\ndays = 0\n")
    code, out, err = treadle("sessions", "expire")
    assert (code, out) == (1, "")
    assert "[retention] days must be a whole number from 1 to 36500, not 0" in err
    assert there(sessions) == ["oldest", "old", "new"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("", "every thread is kept for ever"),
        ("[retention]\ndays = 90\n", "threads not used for 90 days are deleted; "),
        (
            "[retention]\ndays = 90\nthreads = 10\n",
            "threads not used for 90 days or older than the newest 10 are deleted; ",
        ),
    ],
)
def test_the_doctor_tells_the_policy(config: str, said: str) -> None:
    write_config(config)
    _, out, _ = treadle("doctor", "--offline")
    (line,) = [each for each in out.splitlines() if " retention: " in each]
    assert line.startswith(f"ok       retention: {said}")


def test_the_doctor_warns_of_a_secret_that_is_too_short_and_never_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_PIN", "4711")
    write_config('[secrets]\nnames = ["MY_PIN"]\n')
    _, out, err = treadle("doctor", "--offline")
    (line,) = [each for each in out.splitlines() if each.startswith("warning  config.toml")]
    assert "[secrets] MY_PIN has a value of fewer than 8 characters" in line
    assert "4711" not in line + err
