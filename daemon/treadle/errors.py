"""Every error that can reach a client, with its code, its reason and its data.

    TreadleError
    ├── ProtocolError            faults of the wire and of JSON-RPC
    │   ├── ParseError           -32700
    │   ├── InvalidRequest       -32600
    │   ├── MethodNotFound       -32601
    │   ├── InvalidParams        -32602  {path}
    │   ├── InternalError        -32603
    │   ├── NotInitialized       -32002
    │   └── RequestCancelled     -32800
    ├── RequestFailed            -32803, told apart by `reason`
    │   ├── UnknownAgent, InvalidAgent {path}
    │   ├── ThreadLocked {pid, how?}, ThreadUnreadable {path}, ThreadExists {path}
    │   ├── StorageDegraded {path}
    │   ├── UnknownSession, NoSuchOrdinal, Busy, Overloaded, ShuttingDown
    │   ├── NotRunning, WrongTurn {active}, NotShared
    │   ├── WouldWiden {field}, OptionsDiffer {field, is, wanted}
    │   ├── UnsafePlace {path}
    │   ├── DaemonUnreachable: NoDaemon, DaemonFailed, DaemonOfOtherVersion {version}, DaemonGone
    │   ├── NoModel {how}, McpFailed {server, stderr_tail}
    │   └── ModelError
    │       ├── ModelAuth {status}
    │       ├── ModelRateLimited {retry_after_seconds}
    │       ├── ModelUnreachable {status?}
    │       ├── ModelRefusedRequest {status}
    │       ├── ModelStreamBroken {partial}
    │       └── ContextOverflow {overhead_tokens, window, asked_tokens?}
    └── ConfigurationError       a library call, a flag or a file that cannot be right

Clients switch on `reason`, tests on codes, nobody on message text.
A message says what happened and what to do about it.
Members of `data` are snake_case here; the edge renames them for the wire.
"""

from __future__ import annotations

from typing import Any, ClassVar


class TreadleError(Exception):
    """The root: an error with a code for the wire and data for the program that reads it."""

    code: ClassVar[int] = -32603

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = {key: value for key, value in data.items() if value is not None}


class ConfigurationError(TreadleError):
    """A call, a flag or a file of the person's that can never work as it stands."""


class ProtocolError(TreadleError):
    """A fault of the wire or of JSON-RPC."""


class ParseError(ProtocolError):
    """The frame held no JSON."""

    code = -32700


class InvalidRequest(ProtocolError):
    """The frame held JSON that is no request this connection can take now."""

    code = -32600


class MethodNotFound(ProtocolError):
    """No such method."""

    code = -32601


class InvalidParams(ProtocolError):
    """The params do not fit the method; `path` says where."""

    code = -32602

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message, path=path)


class InternalError(ProtocolError):
    """A fault of ours; the log has the details."""

    code = -32603


class NotInitialized(ProtocolError):
    """A request came before `initialize`."""

    code = -32002


class RequestCancelled(ProtocolError):
    """The client cancelled this request."""

    code = -32800


class RequestFailed(TreadleError):
    """A well-formed request that could not be done; `reason` says which kind of failure."""

    code = -32803
    reason: ClassVar[str]


class UnknownAgent(RequestFailed):
    """No agent has this name."""

    reason = "unknown_agent"


class InvalidAgent(RequestFailed):
    """The agent's file cannot be used; `path` names it."""

    reason = "invalid_agent"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, path=path)


class ThreadLocked(RequestFailed):
    """Another process, `pid`, holds this thread for writing."""

    reason = "thread_locked"

    def __init__(self, message: str, *, pid: int | None) -> None:
        super().__init__(message, pid=pid)


class ThreadUnreadable(RequestFailed):
    """The thread's file exists and cannot be opened; `path` names it."""

    reason = "thread_unreadable"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, path=path)


class ThreadExists(RequestFailed):
    """Something is stored already where a new thread was to be made; `path` names it."""

    reason = "thread_exists"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, path=path)


class StorageDegraded(RequestFailed):
    """A thread cannot be written, and there is no going on in memory; `path` names the file.

    More waits to be written than memory may hold, or a session was closed while something waited:
    then `path` names the file in which that lies.
    """

    reason = "storage_degraded"

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message, path=path)


class UnknownSession(RequestFailed):
    """No session of this pair is open or stored."""

    reason = "unknown_session"


class NoSuchOrdinal(RequestFailed):
    """The conversation holds no message of this ordinal; it was rewound, or never there."""

    reason = "no_such_ordinal"


class Busy(RequestFailed):
    """The session runs a turn and the prompt asked not to wait."""

    reason = "busy"


class NotRunning(RequestFailed):
    """The turn that was expected to run has ended, or no turn has begun."""

    reason = "not_running"


class UnsafePlace(RequestFailed):
    """Others could reach the folder where the shared daemon is to be met."""

    reason = "unsafe_place"


class DaemonUnreachable(RequestFailed):
    """The shared daemon of a data folder cannot be used."""

    reason = "daemon_unreachable"


class NoDaemon(DaemonUnreachable):
    """None runs, and none was to be started."""

    reason = "no_daemon"


class DaemonFailed(DaemonUnreachable):
    """One was started and did not come to answer."""

    reason = "daemon_failed"


class DaemonOfOtherVersion(DaemonUnreachable):
    """Another version's runs and is at work, so that it could not be replaced."""

    reason = "daemon_of_other_version"


class DaemonGone(DaemonUnreachable):
    """It ended while something was asked of it."""

    reason = "daemon_gone"


class NotShared(RequestFailed):
    """The daemon serves one client, with which it ends; it is not to be stopped otherwise."""

    reason = "not_shared"


class WrongTurn(RequestFailed):
    """Another turn runs than the one that was expected; `active` is its number."""

    reason = "wrong_turn"

    def __init__(self, message: str, *, active: int) -> None:
        super().__init__(message, active=active)


class Overloaded(RequestFailed):
    """A bound of the daemon is reached; `retry_after_seconds` guesses when that is over."""

    reason = "overloaded"


class ShuttingDown(RequestFailed):
    """The daemon is on its way out."""

    reason = "shutting_down"


class WouldWiden(RequestFailed):
    """An option asked for more than the agent has; `field` names it."""

    reason = "would_widen"

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message, field=field)


class OptionsDiffer(RequestFailed):
    """The pair is open with other options; close it first to change them."""

    reason = "options_differ"

    def __init__(self, message: str, *, field: str, is_: Any, wanted: Any) -> None:
        super().__init__(message, field=field)
        self.data |= {"is": is_, "wanted": wanted}


class NoModel(RequestFailed):
    """No model is configured and the embedded one cannot run; `how` says what to do."""

    reason = "no_model"

    def __init__(self, message: str, *, how: str) -> None:
        super().__init__(message, how=how)


class McpFailed(RequestFailed):
    """An MCP server is not there or does not answer; `stderr_tail` is what it said last."""

    reason = "mcp_failed"

    def __init__(self, message: str, *, server: str, stderr_tail: str | None = None) -> None:
        super().__init__(message, server=server, stderr_tail=stderr_tail or None)


class ModelError(RequestFailed):
    """The model's side of a turn failed; `may_pass` says whether asking again may help.

    `said` is what the endpoint itself wrote, if it did, for whoever can do something about it.
    """

    may_pass = False
    said = ""

    @property
    def asked_seconds(self) -> float:
        """How long the endpoint asks to wait; 0 where it asks for nothing that can be done.

        A completion of somebody else's may put anything there.
        """
        asked = self.data.get("retry_after_seconds")
        if not isinstance(asked, int | float) or isinstance(asked, bool):
            return 0.0
        # In this order, so that what is no number is no wait either.
        return max(0.0, asked)


class ModelAuth(ModelError):
    """The endpoint refused the key (401, 403)."""

    reason = "model_auth"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, status=status)


class ModelRateLimited(ModelError):
    """The endpoint asks to slow down (429)."""

    reason = "model_rate_limited"

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, may_pass: bool = True
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        # A quota that is used up is told in the same way, and no waiting helps.
        self.may_pass = may_pass


class ModelUnreachable(ModelError):
    """The endpoint failed or did not answer (5xx, time-out, connection)."""

    reason = "model_unreachable"
    may_pass = True

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, status=status)


class ModelRefusedRequest(ModelError):
    """The endpoint took the request for wrong (400, 404, 422)."""

    reason = "model_refused_request"

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message, status=status)


class ModelStreamBroken(ModelError):
    """The answer stopped before its end; `partial` is the text that had come."""

    reason = "model_stream_broken"
    may_pass = True

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message, partial=partial)


class ContextOverflow(ModelError):
    """The conversation is larger than the model's window.

    `window` and `asked_tokens` are what the endpoint counted, where it said so.
    """

    reason = "context_overflow"

    def __init__(
        self,
        message: str,
        *,
        overhead_tokens: int | None = None,
        window: int | None = None,
        asked_tokens: int | None = None,
    ) -> None:
        super().__init__(
            message, overhead_tokens=overhead_tokens, window=window, asked_tokens=asked_tokens
        )
