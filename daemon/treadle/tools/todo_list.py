"""The list of what a session's model means to do, as it last wrote it down.

Owns the items and how the list is shown. Refuses to know who works on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

TodoState: TypeAlias = Literal["pending", "in_progress", "done"]

# The field's signs: a box that is empty, being worked on, or ticked.
_MARKS: dict[TodoState, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


@dataclass(frozen=True, slots=True)
class TodoItem:
    """One thing to do."""

    text: str
    state: TodoState


class TodoList:
    """A session's list; it lasts as long as the session is open."""

    def __init__(self) -> None:
        self.items: tuple[TodoItem, ...] = ()

    def replace(self, items: Sequence[TodoItem]) -> None:
        """Put another list in its place."""
        self.items = tuple(items)

    def rendered(self) -> str:
        """Return the list as people and models read it."""
        if not self.items:
            return "The list is empty."
        done = sum(item.state == "done" for item in self.items)
        lines = (f"{_MARKS[item.state]} {' '.join(item.text.split())}" for item in self.items)
        return "\n".join([f"{done} of {len(self.items)} done:", *lines])
