"""Which model answers, once configuration has been read: what `models/provider.py` builds from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# Silence longer than this, before or within an answer, is a time-out. Reasoning models think
# for minutes before their first byte; a dead connection must still end some day.
DEFAULT_TIMEOUT_SECONDS = 300.0

# A model of this name is the shipped fake, and what follows is its script's path.
SCRIPTED_PREFIX = "scripted:"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One way to reach one model.

    `kind` is `endpoint` (any OpenAI-compatible one), `embedded` (the local default) or
    `scripted` (the shipped fake: `model` is `scripted:` and a script file's path).
    """

    kind: Literal["endpoint", "embedded", "scripted"]
    model: str
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS


EMBEDDED = ModelSpec("embedded", "embedded")
