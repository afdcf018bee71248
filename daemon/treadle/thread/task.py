"""Which threads are those of tasks.

A sub-agent's thread is named after the pair in whose turn it was begun, its parent, and its first
line names that parent too: the name alone may be a person's own. Owns that name and that proof.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from treadle.thread.header import read_header

# How `/task-` looks in the name of a file.
TASK_SIGN = "+2ftask-"


class TaskThread(NamedTuple):
    """A task's thread: its own pair, its parent's, and the task's number, from 1."""

    path: Path
    pair: tuple[str, str]
    parent: tuple[str, str]
    number: int


def task_instance(parent: str, number: int) -> str:
    """Return the instance of a task, which its parent's instance is a part of."""
    return f"{parent}/task-{number}"


def task_of(instance: str) -> tuple[str, int] | None:
    """Return whose task an instance is by its name, and its number; None where it is none."""
    found = _NAME.fullmatch(instance)
    return (found["parent"], int(found["number"])) if found else None


def task_thread(path: Path, pair: tuple[str, str]) -> TaskThread | None:
    """Return a thread as a task's where its name and its first line say so; it blocks.

    Args:
        path: its file.
        pair: whose it is.

    Raises:
        OSError: it cannot be read.
    """
    named = task_of(pair[1])
    header = read_header(path) if named else None
    parent = header.parent if header else None
    if named is None or parent is None or parent.instance != named[0]:
        return None
    return TaskThread(path, pair, (parent.agent, parent.instance), named[1])


# A number of more digits is nobody's count.
_NAME = re.compile(r"(?P<parent>.+)/task-(?P<number>[1-9][0-9]{0,8})", re.DOTALL)
