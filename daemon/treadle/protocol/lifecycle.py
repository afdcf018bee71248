"""The structs of LSP's lifecycle, as far as they say something to us."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from treadle.protocol.base import WireStruct

TraceValue: TypeAlias = Literal["off", "messages", "compact", "verbose"]
"""`compact` is no word of LSP's, but VS Code's client has a setting of that name."""


class WorkspaceFolder(WireStruct):
    """A folder that the editor has open."""

    uri: str


class ClientOptions(WireStruct):
    """The client's `capabilities.experimental.treadle`: what it wants and what it can answer.

    `opt_out` names notifications that are not to be sent; `request_permission`, `ask` and
    `request_trust` say that it answers `session/requestPermission`, `session/ask` and
    `workspace/requestTrust`. With `cancel_on_disconnect` its turns end when it goes away; else
    they go on, and what they ask falls to whoever watches.
    """

    opt_out: list[str] = []
    request_permission: bool = False
    ask: bool = False
    request_trust: bool = False
    cancel_on_disconnect: bool = False


class InitializeParams(WireStruct):
    """What the client tells of itself; LSP's fields that say nothing to us are skipped.

    What is only nice to know is taken as it comes: no client is refused for it.
    """

    process_id: int | None = None
    client_info: Any = None
    root_uri: str | None = None
    workspace_folders: list[WorkspaceFolder] | None = None
    capabilities: dict[str, Any] | None = None
    trace: Any = None

    def treadle(self) -> Any:
        """Return `capabilities.experimental.treadle` as it came, to be read as `ClientOptions`.

        None from a client that never heard of Treadle; `experimental` may then be anything.
        """
        experimental = (self.capabilities or {}).get("experimental")
        return experimental.get("treadle") if isinstance(experimental, dict) else None


class ServerInfo(WireStruct):
    """Who we are."""

    name: str
    version: str


class TreadleCapabilities(WireStruct):
    """Our `capabilities.experimental.treadle`: what this build can do and where it keeps data."""

    protocol_version: int
    methods: list[str]
    notifications: list[str]
    client_requests: list[str]
    data_dir: str
    pid: int


class ExperimentalCapabilities(WireStruct):
    """The place that LSP leaves for capabilities of one's own."""

    treadle: TreadleCapabilities


class SyncOptions(WireStruct):
    """How documents are kept in step; `change` 2 is LSP's number for incremental."""

    open_close: Literal[True]
    change: Literal[2]
    save: Literal[True]


class CommandOptions(WireStruct):
    """The commands that `workspace/executeCommand` takes."""

    commands: list[str]
    work_done_progress: Literal[True]


class FolderOptions(WireStruct):
    """What we want to know of the folders that the editor works in."""

    supported: Literal[True]
    change_notifications: Literal[True]


class WorkspaceOptions(WireStruct):
    """What we want to know of the editor's workspace."""

    workspace_folders: FolderOptions


class ServerCapabilities(WireStruct):
    """What the server can do."""

    position_encoding: str
    text_document_sync: SyncOptions
    execute_command_provider: CommandOptions
    workspace: WorkspaceOptions
    experimental: ExperimentalCapabilities


class InitializeResult(WireStruct):
    """The reply to `initialize`."""

    capabilities: ServerCapabilities
    server_info: ServerInfo


class CancelRequestParams(WireStruct):
    """Which of the client's own requests to stop."""

    id: int | str


class SetTraceParams(WireStruct):
    """How much the client wants to hear of what we do."""

    value: TraceValue


class LogTraceParams(WireStruct):
    """A word on what we did; `verbose` only where that was asked for."""

    message: str
    verbose: str | None = None


class FoldersChange(WireStruct):
    """Folders that the editor opened and closed."""

    added: list[WorkspaceFolder] = []
    removed: list[WorkspaceFolder] = []


class DidChangeFoldersParams(WireStruct):
    """The editor works in other folders now."""

    event: FoldersChange
