"""A machine of the test's own: no embedded model, and a scripted one where that is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.folders import CACHE_VARIABLE
from treadle.models.embedded.files import FILE_VARIABLE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, where the embedded model is not."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scripted model that answers for every agent."""
    path = tmp_path / "script.jsonl"
    path.write_text('{"text": "ok"}\n')
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{path}")
    return path
