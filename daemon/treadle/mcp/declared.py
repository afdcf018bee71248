"""What servers may be called, and whose a tool is by its name. Pure.

A tool is called `<server>__<tool>`. A server's name holds no `__` and does not end with `_`, so
that what stands before the first `__` is always the server's.
"""

from __future__ import annotations

import re

# Half of the 64 characters that providers take for a tool's whole name.
SERVER_NAME_CHARACTERS = 32

SEPARATOR = "__"

_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{SERVER_NAME_CHARACTERS}}}")
_OTHERS = re.compile(r"[^A-Za-z0-9-]+")


def is_server_name(text: str) -> bool:
    """Tell whether a server may be called so."""
    return bool(_NAME.fullmatch(text)) and SEPARATOR not in text and not text.endswith("_")


def server_of_tool(name: str) -> str:
    """Return the server whose tool it is, empty where it can be no server's."""
    server, separator, tool = name.partition(SEPARATOR)
    return server if separator and tool and is_server_name(server) else ""


def name_like(text: str) -> str:
    """Return a name for a server that has one which no server may have here; empty for none."""
    return _OTHERS.sub("-", text).strip("-")[:SERVER_NAME_CHARACTERS].strip("-")
