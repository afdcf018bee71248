"""A skill: instructions for one kind of task, and the files beside them.

It says how something is done and allows nothing: no tool, no path, no host. Refuses to know where
skills come from and which agent has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as its file says it.

    Args:
        name: what it is called; its folder is called so too.
        description: what it is for and when to use it.
        body: the instructions.
        folder: where its files lie.
    """

    name: str
    description: str
    body: str
    folder: Path
