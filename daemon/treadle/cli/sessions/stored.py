"""Where the thread of a session lies that a person names."""

from __future__ import annotations

from pathlib import Path

from treadle.folders import find_folders
from treadle.thread.paths import thread_path, validate_name


def thread_file(agent: str, instance: str, *, field: str = "instance") -> Path:
    """Return the file of a session's thread; it need not exist.

    Args:
        agent: the agent's name.
        instance: which of its sessions.
        field: what the error calls that.

    Raises:
        InvalidParams: a name that no thread could have.
    """
    validate_name(agent, "agent")
    validate_name(instance, field)
    return thread_path(find_folders().data, agent, instance)
