"""A runtime in the test's own process, answered by whatever completion the test gives it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.sessions import Answering
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE, Folders
from treadle.models.completion import Completion
from treadle.models.provider import Models
from treadle.runtime.runtime import Runtime


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    """Give a runtime; at the end it is closed, and no task is left of it."""
    before = asyncio.all_tasks()
    runtime = Runtime(
        Folders(
            data=Path(os.environ[DATA_VARIABLE]),
            config=Path(os.environ[CONFIG_VARIABLE]),
            cache=tmp_path / "cache",
            logs=tmp_path / "logs",
        )
    )
    yield runtime
    await runtime.close()
    # A task that has just done its work ends within a pass or two of the loop.
    for _ in range(5):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert left == set()
    assert list(runtime.services.folders.data.rglob("*.lock")) == []


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Make a completion every session's model."""

    def answer_with(completion: Completion) -> None:
        monkeypatch.setattr(Models, "completion", lambda self, spec: completion)

    return answer_with
