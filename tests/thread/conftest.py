"""Where threads of these tests leave what they cannot write, and the disk that fails them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from support.disk import Disk
from treadle.folders import CACHE_VARIABLE


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what could not be written away from the person's own folders; return where it goes."""
    aside = tmp_path.parent / f"{tmp_path.name}-aside"
    monkeypatch.setenv(CACHE_VARIABLE, str(aside / "cache"))
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    return aside / "cache" / "unsaved"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Give a disk that works until the test says otherwise."""
    return Disk(monkeypatch)
