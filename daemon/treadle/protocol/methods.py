"""The one table of methods: what exists, in which direction, with which params and result.

Dispatch and the `initialize` answer derive from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from treadle.protocol import (
    agents,
    attach,
    client,
    compaction,
    daemon,
    editor,
    lifecycle,
    mcp,
    notifications,
    sessions,
)
from treadle.protocol.base import Empty, WireStruct

PROTOCOL_VERSION = 1

Kind: TypeAlias = Literal["request", "notification", "event", "client_request"]
"""`request` and `notification` come from the client, `event` is a notification of ours, and
`client_request` is what we ask the client."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row.

    `lane` says whether a request waits its turn in its session's lane or passes it by.
    `without_id` says that a request sent as a notification is run all the same.
    """

    name: str
    kind: Kind
    params: type[WireStruct]
    result: type[WireStruct] | None = None
    lane: bool = False
    without_id: bool = False
    since: int = 1


_ROWS = (
    Method("initialize", "request", lifecycle.InitializeParams, lifecycle.InitializeResult),
    Method("initialized", "notification", Empty),
    Method("shutdown", "request", Empty, None),
    Method("exit", "notification", Empty),
    Method("$/cancelRequest", "notification", lifecycle.CancelRequestParams),
    Method("$/setTrace", "notification", lifecycle.SetTraceParams),
    Method("$/logTrace", "event", lifecycle.LogTraceParams),
    Method("$/progress", "event", editor.ProgressParams),
    Method("window/workDoneProgress/cancel", "notification", editor.ProgressCancelParams),
    Method("window/showMessage", "event", editor.ShowMessageParams),
    Method("window/logMessage", "event", editor.ShowMessageParams),
    Method("workspace/didChangeWorkspaceFolders", "notification", lifecycle.DidChangeFoldersParams),
    Method("workspace/executeCommand", "request", editor.ExecuteCommandParams),
    Method("daemon/status", "request", Empty, daemon.DaemonStatusResult),
    Method("daemon/stop", "request", daemon.DaemonStopParams, daemon.DaemonStopResult),
    Method("agent/list", "request", Empty, agents.AgentListResult),
    Method("session/resume", "request", sessions.ResumeParams, sessions.ResumeResult, lane=True),
    Method("session/prompt", "request", sessions.PromptParams, sessions.PromptResult, lane=True),
    Method("session/steer", "request", sessions.SteerParams, sessions.SteerResult),
    Method(
        "session/cancel", "request", sessions.CancelParams, sessions.CancelResult, without_id=True
    ),
    Method(
        "session/compact",
        "request",
        compaction.CompactParams,
        compaction.CompactResult,
        lane=True,
    ),
    Method("session/close", "request", sessions.CloseParams, sessions.CloseResult, without_id=True),
    Method("session/attach", "request", attach.AttachParams, attach.AttachResult),
    Method("session/detach", "request", attach.DetachParams, attach.DetachResult),
    Method("session/list", "request", sessions.ListParams, sessions.ListResult),
    Method("session/read", "request", sessions.ReadParams, sessions.ReadResult),
    Method("session/fork", "request", sessions.ForkParams, sessions.ResumeResult, lane=True),
    Method("session/rewind", "request", sessions.RewindParams, sessions.RewindResult, lane=True),
    Method("session/delete", "request", sessions.DeleteParams, sessions.DeleteResult),
    Method("mcp/list", "request", mcp.McpListParams, mcp.McpListResult),
    Method("mcp/prompts", "request", mcp.McpAskParams, mcp.McpPromptsResult),
    Method("mcp/prompt", "request", mcp.McpPromptParams, mcp.McpPromptResult),
    Method("mcp/resources", "request", mcp.McpAskParams, mcp.McpResourcesResult),
    Method("agent/changed", "event", agents.AgentChangedNotification),
    Method("session/state", "event", notifications.StateNotification),
    Method("session/delta", "event", notifications.DeltaNotification),
    Method("session/toolCall", "event", notifications.ToolCallNotification),
    Method("session/toolResult", "event", notifications.ToolResultNotification),
    Method("session/toolProgress", "event", notifications.ToolProgressNotification),
    Method("session/retrying", "event", notifications.RetryingNotification),
    Method("session/compacting", "event", compaction.CompactingNotification),
    Method("session/compacted", "event", compaction.CompactedNotification),
    Method("session/said", "event", attach.SaidNotification),
    Method("session/asked", "event", attach.AskedNotification),
    Method("session/settled", "event", attach.SettledNotification),
    Method("session/done", "event", notifications.DoneNotification),
    Method("mcp/status", "event", mcp.McpStatusNotification),
    Method(
        "session/requestPermission",
        "client_request",
        client.PermissionParams,
        client.PermissionResult,
    ),
    Method("session/ask", "client_request", client.AskParams, client.AskResult),
    Method(
        "workspace/requestTrust",
        "client_request",
        agents.RequestTrustParams,
        agents.RequestTrustResult,
    ),
    Method(
        "window/showMessageRequest",
        "client_request",
        client.ShowMessageRequestParams,
        client.ShowMessageRequestResult,
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}

# What is LSP's stands in the table for its shapes; it is not announced as ours.
_LSP = ("initialize", "initialized", "shutdown", "exit", "$/", "window/", "workspace/")

# Trust is a matter of the workspace, in LSP's word for it, and LSP has no such request.
_OURS_ALL_THE_SAME = ("workspace/requestTrust",)


def own_names(kind: Kind) -> list[str]:
    """Name Treadle's own methods of one kind, in the table's order."""
    return [row.name for row in _ROWS if row.kind == kind and _is_ours(row.name)]


def command_of(method: str) -> str:
    """Return the name under which `workspace/executeCommand` takes a method of ours."""
    return "treadle." + method.replace("/", ".")


def is_request(name: str) -> bool:
    """Whether a method of this name, LSP's included, asks for a reply."""
    row = METHODS.get(name)
    return row is not None and row.kind == "request"


def _is_ours(name: str) -> bool:
    return name in _OURS_ALL_THE_SAME or not name.startswith(_LSP)
