"""The structs of LSP's lifecycle, as far as they say something to us."""

from __future__ import annotations

from typing import Any

from treadle.protocol.base import WireStruct


class WorkspaceFolder(WireStruct):
    """A folder that the editor has open."""

    uri: str


class ClientOptions(WireStruct):
    """The client's `capabilities.experimental.treadle`: what it wants and what it can answer.

    `opt_out` names notifications that are not to be sent.
    """

    opt_out: list[str] = []
    request_permission: bool = False
    ask: bool = False


class InitializeParams(WireStruct):
    """What the client tells of itself; LSP's fields that say nothing to us are skipped."""

    process_id: int | None = None
    root_uri: str | None = None
    workspace_folders: list[WorkspaceFolder] | None = None
    capabilities: dict[str, Any] | None = None

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


class ServerCapabilities(WireStruct):
    """What the server can do."""

    experimental: ExperimentalCapabilities


class InitializeResult(WireStruct):
    """The reply to `initialize`."""

    capabilities: ServerCapabilities
    server_info: ServerInfo


class CancelRequestParams(WireStruct):
    """Which of the client's own requests to stop."""

    id: int | str
