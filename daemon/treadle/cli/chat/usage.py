"""How a command that was not understood is told to whoever typed it."""

from __future__ import annotations


class UsageError(Exception):
    """A command was not understood; the message says what there is."""
