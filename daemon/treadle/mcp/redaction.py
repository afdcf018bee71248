"""What a server says of its tools, without the person's secrets: some servers say what they were
told, and a model, a client and the cache folder get none of it.

Owns that. Refuses to know what becomes of tools. What a tool answers is redacted with every other
tool's results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from treadle.mcp.remote import RemoteTool
from treadle.secrets import known


def without_secrets(tools: Iterable[RemoteTool]) -> tuple[RemoteTool, ...]:
    """Return tools with each secret replaced; one whose very name holds one is left out, for it
    could be called by no other.
    """
    secrets = known()
    return tuple(
        replace(
            tool,
            description=secrets.redact(tool.description),
            parameters=secrets.redact_all(tool.parameters),
            title=secrets.redact(tool.title),
            annotations=secrets.redact_all(tool.annotations),
        )
        for tool in tools
        if secrets.redact(tool.name) == tool.name
    )
