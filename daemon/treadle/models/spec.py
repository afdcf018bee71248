"""Which model answers, and at which endpoint.

Owns how a model is named and what an endpoint's address may be. Refuses to know who chose it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# Silence longer than this, before or within an answer, is a time-out. Reasoning models think
# for minutes before their first byte; a dead connection must still end some day.
DEFAULT_TIMEOUT_SECONDS = 300.0

# Where a request goes that names no endpoint: the `openai` package's own default.
DEFAULT_BASE_URL = "https://api.openai.com/v1"

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


def is_endpoint(url: str) -> bool:
    """Whether a request can be sent to this URL at all."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
