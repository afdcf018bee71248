"""Which notifications belong to LSP's own features; light, for it is asked of each one.

Refuses to know what they say.
"""

from __future__ import annotations

# All that LSP tells servers of documents and of the workspace.
_PREFIXES = ("textDocument/", "notebookDocument/", "workspace/did")


def is_editors(method: str) -> bool:
    """Whether a notification is for pygls to take."""
    return method.startswith(_PREFIXES)
