"""The address of a session."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """The address of a session."""

    agent: str
    instance: str
