"""Models and odd daemons for tests of the daemon's edge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import serving_after

# Longer than any test lives.
FOREVER_SECONDS = 3600


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[..., str]:
    """Make the name of a model that gives some replies in order, over and over."""

    def make(*replies: dict[str, Any]) -> str:
        path = tmp_path / "script.jsonl"
        path.write_text("\n".join(map(json.dumps, replies)))
        return f"scripted:{path}"

    return make


@pytest.fixture
def waiting_model(scripted: Callable[..., str]) -> str:
    """Name a model that never says anything."""
    return scripted({"text": "never", "delay_seconds": FOREVER_SECONDS})


@pytest.fixture
def serving(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Make a program that is `treadle serve` after some lines of Python."""

    return lambda *lines: serving_after(tmp_path, *lines)
