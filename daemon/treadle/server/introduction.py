"""`initialize`: what a client says of itself, and what it is told.

Light, because it is answered before anything else is loaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from treadle.errors import InvalidParams
from treadle.folders import Folders
from treadle.protocol.lifecycle import (
    ClientOptions,
    CommandOptions,
    ExperimentalCapabilities,
    FolderOptions,
    FoldersChange,
    InitializeParams,
    InitializeResult,
    ServerCapabilities,
    ServerInfo,
    SyncOptions,
    TreadleCapabilities,
    WorkspaceFolder,
    WorkspaceOptions,
)
from treadle.protocol.methods import PROTOCOL_VERSION, command_of, own_names
from treadle.server.uri import folder_of
from treadle.server.wire.envelope import decode_params
from treadle.version import __version__

# Where a client knows several, ours come first: UTF-8 is what we keep, UTF-16 is what LSP began
# with and every client has.
_ENCODINGS = ("utf-8", "utf-32")
_LSP_ENCODING = "utf-16"


@dataclass(frozen=True, slots=True)
class Hello:
    """What a client said of itself.

    Attributes:
        raw: the params of its `initialize`, as JSON.
        params: the same, as far as they say something to us.
        options: what it wants of Treadle in particular.
        position_encoding: in which units it and we count the characters of a line.
        folders: where it works, the first one foremost.
    """

    raw: bytes
    params: InitializeParams
    options: ClientOptions
    position_encoding: str
    folders: list[Path]

    @property
    def capabilities(self) -> dict[str, Any]:
        """What it can do, in LSP's words."""
        return self.params.capabilities or {}

    def declares(self, *path: str) -> bool:
        """Whether it named a capability at all, be it with an empty object."""
        found: Any = self.capabilities
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found is not None and found is not False

    @property
    def client_name(self) -> str:
        """Its own name and version, for the log."""
        info = self.params.client_info
        told = [info.get("name"), info.get("version")] if isinstance(info, dict) else []
        return " ".join(each for each in told if isinstance(each, str)) or "a client without a name"


def read_hello(raw: bytes) -> Hello:
    """Read the params of `initialize`.

    Raises:
        InvalidParams: they are misunderstood; `path` says where.
    """
    params = decode_params(_params_decoder, raw)
    return Hello(raw, params, _options(params), _position_encoding(params), _folders(params))


def introduction(hello: Hello, folders: Folders) -> InitializeResult:
    """Say who we are and what we can do."""
    methods = own_names("request")
    treadle = TreadleCapabilities(
        protocol_version=PROTOCOL_VERSION,
        methods=methods,
        notifications=own_names("event"),
        client_requests=own_names("client_request"),
        data_dir=str(folders.data),
        pid=os.getpid(),
    )
    return InitializeResult(
        capabilities=ServerCapabilities(
            position_encoding=hello.position_encoding,
            text_document_sync=SyncOptions(open_close=True, change=2, save=True),
            execute_command_provider=CommandOptions(
                commands=[command_of(method) for method in methods], work_done_progress=True
            ),
            workspace=WorkspaceOptions(
                workspace_folders=FolderOptions(supported=True, change_notifications=True)
            ),
            experimental=ExperimentalCapabilities(treadle=treadle),
        ),
        server_info=ServerInfo(name="treadle", version=__version__),
    )


def moved(folders: list[Path], change: FoldersChange) -> list[Path]:
    """Return the folders that a client works in after a change."""
    gone = _paths(change.removed)
    stay = [folder for folder in folders if folder not in gone]
    return stay + [folder for folder in _paths(change.added) if folder not in stay]


_params_decoder = msgspec.json.Decoder(InitializeParams)
_options_decoder = msgspec.json.Decoder(ClientOptions)


def _options(params: InitializeParams) -> ClientOptions:
    """Return what the client says to us in particular.

    Raises:
        InvalidParams: it speaks to us and is misunderstood.
    """
    given = params.treadle()
    if given is None:
        return ClientOptions()
    try:
        return decode_params(_options_decoder, msgspec.json.encode(given))
    except InvalidParams as error:
        inner = error.data["path"]
        path = f"capabilities.experimental.treadle{'.' if inner else ''}{inner}"
        raise InvalidParams(f"{path}: {error.message}", path=path) from None


def _position_encoding(params: InitializeParams) -> str:
    general = (params.capabilities or {}).get("general")
    known = general.get("positionEncodings") if isinstance(general, dict) else None
    offered = known if isinstance(known, list) else []
    return next((each for each in _ENCODINGS if each in offered), _LSP_ENCODING)


def _folders(params: InitializeParams) -> list[Path]:
    """Return the client's workspace folders, else its root."""
    given = params.workspace_folders or []
    root = [WorkspaceFolder(uri=params.root_uri)] if params.root_uri else []
    return _paths(given) or _paths(root)


def _paths(folders: list[WorkspaceFolder]) -> list[Path]:
    return [path for folder in folders if (path := folder_of(folder.uri)) is not None]
