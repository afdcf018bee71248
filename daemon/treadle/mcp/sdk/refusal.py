"""What the SDK raises, as `RemoteError` with words; and our own refusals on their way through it.

Owns that no error of a library, no group of them and no stack leaves this room. Refuses to know
what was asked.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, PARSE_ERROR, ErrorData
from pydantic import ValidationError

from treadle.mcp.remote import RemoteError
from treadle.mcp.sdk.messages import whole_characters
from treadle.secrets import known
from treadle.tools.limits import cut_characters

# An error tells what went wrong at its beginning; some servers send a whole page.
ERROR_CHARACTERS = 2_000

# Marks what we say in a server's place; no server knows it.
_OURS = uuid4().hex

# How the SDK begins to say that it cannot read something, which it then quotes.
_UNREAD = "Failed to parse"

_NO_ENTRY = (
    "the server refuses us (HTTP {status}): its token is missing or not accepted; name the "
    "variable that holds it with `token_env`. Signing in by OAuth is not supported"
)


def refusal(message: str, *, final: bool = False) -> ErrorData:
    """Make an error of ours in the form of a server's.

    Args:
        message: in words, of which the server is the subject.
        final: whether asking in another way would not help.
    """
    return ErrorData(code=INTERNAL_ERROR, message=message, data={_OURS: final})


def is_final(error: MCPError) -> bool:
    """Tell whether an error is ours, and asking in another way would not help."""
    return bool(_mark(error))


def told(error: BaseException) -> RemoteError:
    """Return what an error says, for the caller to raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, MCPError):
        if _mark(error) is not None:
            return RemoteError(error.message)
        if error.code == PARSE_ERROR and error.message.startswith(_UNREAD):
            return RemoteError("the server's answer cannot be read: it is cut off, or no JSON")
        # Redacted before it is cut: half a secret is not recognised any more.
        said = known().redact(whole_characters(error.message)) or "without a word"
        message = f"the server answered with an error: {said}"
        return RemoteError(cut_characters(message, ERROR_CHARACTERS), error.code)
    return RemoteError(cut_characters(_words(error), ERROR_CHARACTERS))


def unreachable(error: Exception) -> str:
    """Say why a server could not be reached."""
    if isinstance(error, httpx2.ConnectTimeout):
        return "the server cannot be reached: no connection within the time that it may take"
    if isinstance(error, httpx2.LocalProtocolError):
        # The library quotes it, and it may be the token.
        return "the server cannot be reached: its headers or its token hold what no header may"
    if isinstance(error, httpx2.ConnectError):
        return f"the server cannot be reached: {_quoted(error) or 'no connection'}"
    return f"the connection with the server broke off: {_quoted(error) or type(error).__name__}"


def status_words(status: int) -> str:
    """Say what a server means by the status of a refusal."""
    if status in (401, 403):
        return _NO_ENTRY.format(status=status)
    return f"the server answered with HTTP {status}"


def _mark(error: MCPError) -> bool | None:
    data: Any = error.error.data
    mark = data.get(_OURS) if isinstance(data, dict) else None
    return mark if isinstance(mark, bool) else None


def _words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"the server's answer is not what the protocol wants: {where}: {first['msg']}"
    if isinstance(error, httpx2.HTTPStatusError):
        return status_words(error.response.status_code)
    if isinstance(error, httpx2.HTTPError):
        return unreachable(error)
    return f"the server cannot be understood: {_quoted(error) or type(error).__name__}"


def _quoted(error: BaseException) -> str:
    """Return what a library says, which may quote what the server sent."""
    return known().redact(whole_characters(str(error)))
