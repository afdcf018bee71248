"""What several tests of tools stand on."""

from __future__ import annotations

import pytest

from support.peers import require_program
from treadle.tools.search import ripgrep


@pytest.fixture(params=["library", "ripgrep"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Search by our own means, and by ripgrep where it is installed."""
    if request.param == "library":
        monkeypatch.setattr(ripgrep, "installed", lambda folder: None)
    else:
        require_program("rg")
    return str(request.param)
