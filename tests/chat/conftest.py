"""What every test of a chat in a terminal begins with."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from support.chat import Chat, chat_in


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    """Open a chat with a model server's answers, in the test's own folder."""
    return partial(chat_in, tmp_path)
