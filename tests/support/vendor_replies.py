"""Error replies of real endpoints, and what must be told of each.

Owns how the table beside it, `vendor_replies.jsonl`, is read. The words, statuses and forms in
it are the vendors' own, as people show them in public bug reports and documentation of 2023 to
2026; names of accounts and keys are left out. A body that is no JSON is a string.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.errors import (
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelUnreachable,
)

# What a line says is told, the error that tells it, and whether asking again may help.
_TOLD: dict[str, tuple[type[ModelError], bool]] = {
    "overflow": (ContextOverflow, False),
    "slow_down": (ModelRateLimited, True),
    "too_large_alone": (ModelRateLimited, False),
    "quota": (ModelRateLimited, False),
    "auth": (ModelAuth, False),
    "trouble": (ModelUnreachable, True),
    "refused": (ModelRefusedRequest, False),
}

_DATA = ("window", "asked_tokens", "retry_after_seconds")


@dataclass(frozen=True)
class VendorReply:
    """One reply, and the error that it must become."""

    vendor: str
    told: str
    status: int
    body: Any
    kind: type[ModelError]
    data: dict[str, Any]
    may_pass: bool

    @property
    def text(self) -> str:
        """The body as it is sent."""
        return self.body if isinstance(self.body, str) else json.dumps(self.body)

    def __str__(self) -> str:
        return f"{self.vendor} {self.told}"


def _read(line: str) -> VendorReply:
    row = json.loads(line)
    kind, may_pass = _TOLD[row["told"]]
    data = {name: row[name] for name in _DATA if name in row}
    if kind not in (ContextOverflow, ModelRateLimited):
        data["status"] = row["status"]
    return VendorReply(row["vendor"], row["told"], row["status"], row["body"], kind, data, may_pass)


_LINES = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
REPLIES = [_read(line) for line in _LINES]


def told(*kinds: str) -> list[VendorReply]:
    """Return the replies that tell one of `kinds`."""
    return [reply for reply in REPLIES if reply.told in kinds]
