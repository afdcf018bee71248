"""Agents that give tasks to others: what they say, and what their threads keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.daemon import Daemon
from support.person import pair, stored


def lines_of(agent: str, instance: str) -> list[dict[str, Any]]:
    """Return the whole lines of a thread, which another process may be writing."""
    whole = stored(agent, instance).read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def names_of_texts(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.txt"))


async def results_of(client: Daemon, instance: str, agent: str = "boss") -> list[str]:
    """Return the results of a session's calls."""
    read = await client.request("session/read", pair(instance, agent))
    return [one["content"] for one in read["messages"] if one["role"] == "tool"]


async def prompt_parent(client: Daemon, instance: str, agent: str = "boss", **members: Any) -> Any:
    return await client.request("session/prompt", pair(instance, agent, prompt="Go.", **members))
