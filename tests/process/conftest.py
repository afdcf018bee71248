"""Where the processes of these tests call."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.switchboard import Switchboard, open_switchboard


@pytest.fixture
async def switchboard() -> AsyncIterator[Switchboard]:
    async with open_switchboard() as board:
        yield board
