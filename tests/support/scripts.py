"""Agents that speak by a script: what each of their model calls answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from support.person import write_agent
from treadle.folders import CONFIG_VARIABLE


def says(text: str, **members: Any) -> dict[str, Any]:
    """Return a reply that ends a turn."""
    return {"text": text, **members}


def calls(*named: tuple[str, dict[str, Any]], **members: Any) -> dict[str, Any]:
    """Return a reply that calls tools."""
    return {"calls": [{"name": name, "arguments": given} for name, given in named], **members}


def scripted_agent(name: str, *replies: dict[str, Any], **front_matter: object) -> Path:
    """Write an agent's file, and the script that its model calls go through, over and over."""
    script = Path(os.environ[CONFIG_VARIABLE], f"{name}.jsonl")
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8")
    return write_agent(name, model=f"scripted:{script}", **front_matter)
