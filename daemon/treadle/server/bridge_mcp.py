"""The bridge's part for MCP servers: what they do and say, as clients read it.

Owns that nothing of a server's reaches a client with a secret in it, and that its messages are in
the shapes that `session/prompt` takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from treadle.errors import McpFailed
from treadle.mcp.remote import RemotePrompt, RemoteResource
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.protocol.mcp import (
    McpFailure,
    McpMessage,
    McpPromptArgument,
    McpPromptInfo,
    McpResourceInfo,
    McpServerInfo,
    McpStatusNotification,
)
from treadle.protocol.sessions import PromptBlock, ReleasedServer, ResumedServer, TextBlock
from treadle.runtime.outbox import SessionEvent
from treadle.secrets import known


def server_info(status: ServerStatus) -> McpServerInfo:
    """Tell how a server is doing, whoever asks."""
    return McpServerInfo(
        server=status.server,
        state=status.state,
        pid=status.pid,
        tools=list(status.tools),
        last_error=status.error or None,
        stderr_tail=status.stderr_tail or None,
        shared=status.shared,
    )


def resumed_servers(statuses: Iterable[ServerStatus]) -> list[ResumedServer]:
    """Tell whoever opens a session how its servers are doing."""
    return [ResumedServer(server=each.server, state=each.state) for each in statuses]


def released_servers(ends: Iterable[ServerEnd]) -> list[ReleasedServer]:
    """Tell how the servers ended that a close gave back."""
    return [
        ReleasedServer(server=end.server, pid=end.pid, exit=end.exit_code, by=end.by)
        for end in ends
    ]


def status_of_session(event: SessionEvent, status: ServerStatus) -> McpStatusNotification:
    """Tell that a session's own server does something else."""
    return McpStatusNotification(
        **event.pair._asdict(), seq=event.seq, turn=event.turn, **_told(status)
    )


def status_of_shared(agent: str, status: ServerStatus) -> McpStatusNotification:
    """Tell that a server does something else that sessions share."""
    return McpStatusNotification(agent=agent, **_told(status))


def failure(server: str, error: McpFailed) -> McpFailure:
    """Tell that a server did not answer, beside the answers of others."""
    tail = error.data.get("stderr_tail")
    return McpFailure(server=server, message=error.message, stderr_tail=tail)


def prompt_infos(server: str, prompts: Iterable[RemotePrompt]) -> list[McpPromptInfo]:
    """Describe a server's prompts."""
    secrets = known()
    return [
        McpPromptInfo(
            server=server,
            name=prompt.name,
            description=secrets.redact(prompt.description),
            arguments=[
                McpPromptArgument(
                    name=each.name,
                    description=secrets.redact(each.description),
                    required=each.required,
                )
                for each in prompt.arguments
            ],
        )
        for prompt in prompts
    ]


def resource_infos(server: str, resources: Iterable[RemoteResource]) -> list[McpResourceInfo]:
    """Describe what a server lists."""
    secrets = known()
    return [
        McpResourceInfo(
            server=server,
            uri=secrets.redact(each.uri),
            name=secrets.redact(each.name),
            description=secrets.redact(each.description),
            mime_type=each.mime_type,
            template=each.is_template,
        )
        for each in resources
    ]


def prompt_messages(said: Sequence[tuple[str, dict[str, object]]]) -> list[McpMessage]:
    """Return a prompt's messages; it may hold megabytes, so it is called in a worker thread."""
    return [McpMessage(role=role, content=[_block(block)]) for role, block in said]


def _told(status: ServerStatus) -> dict[str, Any]:
    return {
        "server": status.server,
        "state": status.state,
        "pid": status.pid,
        "tools": list(status.tools),
        "error": status.error or None,
    }


def _block(block: dict[str, object]) -> PromptBlock:
    """Return a block as one of ours; what is none becomes text, so that nothing is lost."""
    plain = known().redact_all(block)
    try:
        read: PromptBlock = msgspec.convert(plain, PromptBlock)
    except msgspec.ValidationError:
        return TextBlock(text=json.dumps(plain, ensure_ascii=False, default=str))
    return read
