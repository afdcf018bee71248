"""Whatever daemon a test leaves is ended with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.shared import end_daemon
from treadle.rendezvous.environment import NO_DAEMON_VARIABLE


@pytest.fixture(autouse=True)
def _ended(monkeypatch: pytest.MonkeyPatch, _own_folders: None) -> Iterator[None]:
    monkeypatch.delenv(NO_DAEMON_VARIABLE)
    yield
    end_daemon()
