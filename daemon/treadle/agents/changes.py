"""What has changed between two looks at the agents, in the words that clients are told.

Pure but for the looks themselves. Refuses to know when anybody looks and who is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from treadle.agents.catalogue import Catalogue

Change: TypeAlias = Literal["added", "changed", "removed", "broken"]

# The name under which `config.toml` stands: it may concern every agent, and no agent has it.
CONFIG = ""


class AgentChange(NamedTuple):
    """An agent that is not as it was; the name `CONFIG` says that any of them may be another."""

    name: str
    change: Change


@dataclass(frozen=True, slots=True)
class Seen:
    """What a file means, if anything, and what is wrong with it, if something is."""

    meaning: Any
    problem: str = ""


def look(catalogue: Catalogue, workspaces: Iterable[Path]) -> dict[str, Seen]:
    """Return what every agent means now, by name; blocks on the disk for a moment.

    Args:
        catalogue: the agents.
        workspaces: the folders whose own agents count too.
    """
    agents, problems = catalogue.list(workspaces)
    seen = {agent.name: Seen(agent) for agent in agents}
    for problem in problems:
        name = catalogue.name_of(problem.path)
        if name is not None:
            seen[name] = Seen(seen[name].meaning if name in seen else None, problem.message)
    seen[CONFIG] = Seen(*catalogue.config_state())
    return seen


def differences(before: Mapping[str, Seen], now: Mapping[str, Seen]) -> list[AgentChange]:
    """Return what is not as it was, by name."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        was, is_ = before.get(name), now.get(name)
        if was != is_:
            found.append(AgentChange(name, _change(was, is_)))
    return found


def _change(was: Seen | None, is_: Seen | None) -> Change:
    if is_ is None:
        return "removed"
    if is_.problem and (was is None or was.problem != is_.problem):
        return "broken"
    return "added" if was is None or was.meaning is None else "changed"
