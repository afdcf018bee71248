"""Documents as editors tell of them, and what a model reads of one."""

from __future__ import annotations

from typing import Any

from support.daemon import Daemon
from support.person import pair


def opening(uri: str, text: str) -> dict[str, Any]:
    """Return the params of `textDocument/didOpen`."""
    return {"textDocument": {"uri": uri, "languageId": "text", "version": 1, "text": text}}


def changing(uri: str, version: int | None, *changes: dict[str, Any]) -> dict[str, Any]:
    """Return the params of `textDocument/didChange`."""
    return {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)}


def link(uri: str) -> list[dict[str, str]]:
    """Return a prompt that is nothing but a link."""
    return [{"type": "resource_link", "uri": uri, "name": "it"}]


async def seen(client: Daemon, uri: str, instance: str = "doc") -> str:
    """Return what a model that echoes its prompt reads of a link."""
    answer = await client.request("session/prompt", pair(instance, prompt=link(uri)))
    return str(answer["text"])
