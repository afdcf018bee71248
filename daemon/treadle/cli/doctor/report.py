"""What the doctor found: one structure, which text and JSON are both made of.

Owns the shape of the JSON, which programs rely on: members are added and never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from treadle.secrets import Secrets
from treadle.server.log.words import safe_line, secrets

Status: TypeAlias = Literal["ok", "warning", "problem"]

# From the gravest on.
_GRAVITY: tuple[Status, ...] = ("problem", "warning", "ok")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Args:
        name: what it was, such as `folder/data` or `agent/inbox`; the same at every run.
        status: `problem` does not work; `warning` works and wants to be looked at.
        detail: what was found, in words.
        fix: the command that mends it, or what to do where no command can.
    """

    name: str
    status: Status
    detail: str
    fix: str | None = None


@dataclass(slots=True)
class Report:
    """Everything that was found.

    Attributes:
        versions: of Treadle, Python, the platform and the libraries.
        folders: by their use; empty when they lead nowhere.
        embedded: what there is of the embedded model.
        models: each distinct model that answers for an agent.
        threads: how many there are, and who holds some.
        checks: what was looked at, in that order.
    """

    versions: dict[str, Any] = field(default_factory=dict)
    folders: dict[str, Any] = field(default_factory=dict)
    embedded: dict[str, Any] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)
    threads: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def wrong(self) -> list[Check]:
        """What is wrong, the gravest first."""
        found = [check for check in self.checks if check.status != "ok"]
        return sorted(found, key=lambda check: _GRAVITY.index(check.status))

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON has it; no text in it holds a key."""
        plain = {
            "ok": not self.wrong,
            "versions": self.versions,
            "folders": self.folders,
            "embedded": self.embedded,
            "models": self.models,
            "threads": self.threads,
            "checks": [_plain(check) for check in self.checks],
        }
        return dict(_safe(plain, secrets()))


def _plain(check: Check) -> dict[str, str]:
    plain = {"name": check.name, "status": check.status, "detail": check.detail}
    return plain if check.fix is None else {**plain, "fix": check.fix}


def _safe(value: Any, hidden: Secrets) -> Any:
    """Copy JSON without what must not be shown, whoever wrote it."""
    if isinstance(value, str):
        return safe_line(value, hidden)
    if isinstance(value, dict):
        return {_safe(key, hidden): _safe(member, hidden) for key, member in value.items()}
    if isinstance(value, list):
        return [_safe(member, hidden) for member in value]
    return value
