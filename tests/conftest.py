"""What every test stands on: folders of its own, and lint around every stack."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support.shared import end_daemon, meeting
from treadle.folders import CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.rendezvous.address import RUNTIME_VARIABLE, Address
from treadle.rendezvous.environment import NO_DAEMON_VARIABLE
from treadle.rendezvous.reaching import reach
from treadle.turn.agent import LINT_VARIABLE

# What a person may have set, and what would make a test speak to a real endpoint.
_PERSONAL = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "TREADLE_LOG_LEVEL",
    "TREADLE_MODEL",
)

# Whoever runs the tests in the background of a shell has them ignore Ctrl-C, and with them every
# process that they start; a person's terminal does not.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples at each run: what is red somewhere is red everywhere, and on a busy machine too.
settings.register_profile("treadle", derandomize=True, database=None, deadline=None)
settings.load_profile("treadle")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let a process that runs a part of the tests report what it captured, whatever that is."""
    return _encodable((yield))


def _encodable(data: Any) -> Any:
    """Return plain data without half characters, which no pipe carries."""
    if isinstance(data, str):
        return data.encode(errors="backslashreplace").decode()
    if isinstance(data, dict):
        return {key: _encodable(value) for key, value in data.items()}
    return [_encodable(value) for value in data] if isinstance(data, list | tuple) else data


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep every test, and every process it starts, away from the person's own folders."""
    for variable in _PERSONAL:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(LOG_VARIABLE, str(tmp_path / "logs"))
    monkeypatch.setenv(NO_DAEMON_VARIABLE, "1")
    # Short, because a socket's path has a bound, and made by whoever meets a daemon there.
    meeting = Path(tempfile.gettempdir(), f"treadle-{uuid.uuid4().hex[:12]}")
    monkeypatch.setenv(RUNTIME_VARIABLE, str(meeting))
    monkeypatch.setenv(LINT_VARIABLE, "1")
    yield
    shutil.rmtree(meeting, ignore_errors=True)


@pytest.fixture
def shared_daemon(_own_folders: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """Start a shared daemon on the test's folders; it has ended, with all its own, afterwards."""
    monkeypatch.delenv(NO_DAEMON_VARIABLE, raising=False)
    reach(os.environ[DATA_VARIABLE]).connected.close()
    yield meeting()
    end_daemon()
