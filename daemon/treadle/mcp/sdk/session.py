"""The SDK's session, with what it says of us and takes from servers as we want it, and the
agreement with a server on how to speak.

Owns which of the protocol's two ways is tried first. Refuses to know how messages come and go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from treadle.mcp.remote import Era, Host, RemoteError
from treadle.mcp.sdk.callbacks import Callbacks
from treadle.mcp.sdk.gate import Gate
from treadle.mcp.sdk.messages import mend
from treadle.mcp.sdk.refusal import is_final, told
from treadle.version import __version__

_HANDSHAKE_FIRST: tuple[Era, ...] = ("handshake", "modern")
_MODERN_FIRST: tuple[Era, ...] = ("modern", "handshake")


class Session(ClientSession):
    """A session through a gate, for a host.

    Args:
        gate: the streams.
        host: who answers what the server asks.
    """

    def __init__(self, gate: Gate, host: Host) -> None:
        callbacks = Callbacks(host)
        super().__init__(
            dispatcher=_Dispatcher(gate.incoming, gate.outgoing),
            client_info=types.Implementation(name="treadle", version=__version__),
            list_roots_callback=callbacks.roots,
            elicitation_callback=callbacks.elicit,
            sampling_callback=callbacks.sample if host.may_sample else None,
            logging_callback=callbacks.log,
            # Servers of the handshake decide themselves what they log; the others want to be asked.
            log_level="info",
            message_handler=callbacks.notice,
        )

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Leave it to `Judge`: the SDK would run the patterns of a stranger's schema."""

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        """Say that forms alone are filled in, and that folders do not change."""
        return (
            super()
            ._build_capabilities(version)
            .model_copy(
                update={
                    "elicitation": types.ElicitationCapability(
                        form=types.FormElicitationCapability()
                    ),
                    "roots": types.RootsCapability(list_changed=False),
                }
            )
        )


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Mends results before the session judges them."""

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, Any]:
        result = await super().send_raw_request(
            method, params, opts, _related_request_id=_related_request_id
        )
        mend(method, result)
        return result


async def agree(session: Session, remembered: Era | None) -> Era:
    """Find out how the server speaks.

    Args:
        session: it is open, and nothing has been said yet.
        remembered: how it spoke the last time, which is tried first.

    Raises:
        RemoteError: in neither way.
        MCPError: the connection ended meanwhile.
    """
    refusals: list[str] = []
    for era in _MODERN_FIRST if remembered == "modern" else _HANDSHAKE_FIRST:
        try:
            await (session.initialize() if era == "handshake" else session.discover())
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or is_final(error):
                raise
            refusals.append(told(error).message)
        except (RuntimeError, ValidationError) as error:
            refusals.append(told(error).message)
        else:
            return era
    raise RemoteError(f"the server cannot be spoken with: {'; '.join(dict.fromkeys(refusals))}")
