"""What several tests of tools stand on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.commands import Bench
from support.peers import require_program
from support.switchboard import Switchboard, open_switchboard
from treadle.tools.search import ripgrep


@pytest.fixture(params=["library", "ripgrep"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Search by our own means, and by ripgrep where it is installed."""
    if request.param == "library":
        monkeypatch.setattr(ripgrep, "installed", lambda folder: None)
    else:
        require_program("rg")
    return str(request.param)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    folder = tmp_path / "work"
    folder.mkdir()
    made = Bench(folder, tmp_path / "outputs")
    yield made
    await made.session.close()


@pytest.fixture
async def switchboard() -> AsyncIterator[Switchboard]:
    async with open_switchboard() as board:
        yield board
