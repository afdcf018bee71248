"""Threads to talk in: in a file, and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.thread.thread import Thread


@pytest.fixture(params=["file", "memory"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Thread]:
    """A new thread, of either kind."""
    made = Thread.in_memory() if request.param == "memory" else Thread.open(tmp_path / "t.jsonl")
    yield made
    made.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Thread]:
    """A new thread in a file: `t.jsonl` in the test's folder."""
    made = Thread.open(tmp_path / "t.jsonl")
    yield made
    made.close()
