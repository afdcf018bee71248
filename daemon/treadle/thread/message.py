"""A message, and its one line in a thread file.

Owns the plain form: no empty fields, unknown keys kept, loading the exact inverse of writing.
Refuses to know where a line is stored or how a provider wants a message.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Content: TypeAlias = str | list[dict[str, Any]]

# The same for whoever is handed a message and does not trust it.
ROLES: frozenset[str] = frozenset(get_args(Role))

# How every message line of ours begins; behind a line end it stands in no text.
LINE_START = b'{"role"'


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tokens of one model call, or of a turn, as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    extra: dict[str, Any] = msgspec.field(default_factory=dict, name="")

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call the model asks for.

    `arguments` is always an object. When the model sent something that could not be read
    as one, that text stands in `raw_arguments` and the call is answered with an error.
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw_arguments: str = ""
    extra: dict[str, Any] = msgspec.field(default_factory=dict, name="")


class Message(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message of a conversation; a message never changes once it is made.

    Args:
        role: who speaks.
        content: text, or content blocks for what is not text.
        tool_calls: the calls an assistant asks for.
        tool_call_id: the call that a `tool` message answers.
        reasoning: what the model thought aloud.
        at: when it was said, RFC 3339 in UTC.
        turn: the number of the turn it belongs to, from 1; 0 where nobody counted.
        model: the model that said it.
        usage: what the call that made it cost.
        partial: the text was cut short by a cancel, a kill or a broken stream.
        is_error: a tool result that tells of a failure.
        extra: keys of its line that this version does not know; kept as they came.
    """

    role: Role
    content: Content = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str = ""
    reasoning: str = ""
    at: str = ""
    turn: int = 0
    model: str = ""
    usage: Usage | None = None
    partial: bool = False
    is_error: bool = False
    extra: dict[str, Any] = msgspec.field(default_factory=dict, name="")

    @property
    def text(self) -> str:
        """The message's text, that of its blocks joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(block.get("text", "")) for block in self.content)


def encode_line(message: Message) -> bytes:
    """Encode a message as its JSON line, without the line end.

    Text that is no UTF-8 (lone surrogates) becomes U+FFFD, numbers JSON cannot hold become text.
    """
    try:
        # What came out of a line goes back into one, however deep its unknown keys are nested.
        return _encoder.encode(_flat(message) if _has_extra(message) else message)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(clean(_flat(message)))


def decode_line(line: bytes) -> Message:
    """Decode one message line; the exact inverse of `encode_line`.

    Escaped lone surrogates, which other writers produce, become U+FFFD.

    Raises:
        msgspec.DecodeError: the line is no JSON.
        msgspec.ValidationError: the line is JSON but no message.
        RecursionError: it is nested beyond all reason.
    """
    try:
        message = _decoder.decode(line)
    except msgspec.DecodeError:
        return from_plain(decode_json(line))
    # A line with the key "" seems known to the decoder, which keeps the unknown keys under it.
    return from_plain(msgspec.json.decode(line)) if _has_extra(message) else message


def from_plain(plain: object) -> Message:
    """Build a message from its plain form, keeping what this version does not know.

    Raises:
        msgspec.ValidationError: this is no message.
    """
    if not isinstance(plain, dict):
        raise msgspec.ValidationError("a message line is a JSON object")
    fields = dict(plain)
    if isinstance(fields.get("tool_calls"), list):
        fields["tool_calls"] = [split_unknown(ToolCall, call) for call in fields["tool_calls"]]
    fields["usage"] = split_unknown(Usage, fields.get("usage"))
    return msgspec.convert(split_unknown(Message, fields), Message)


def split_unknown(kind: type[msgspec.Struct], plain: Any) -> Any:
    """Move the keys that `kind` does not know into the member that keeps them.

    Returns:
        What can be converted to `kind`; what is no object comes back as it is.
    """
    if not isinstance(plain, dict):
        return plain
    known = set(kind.__struct_encode_fields__) - {""}
    unknown = {key: value for key, value in plain.items() if key not in known}
    fields = {key: value for key, value in plain.items() if key in known}
    return {**fields, "": unknown} if unknown else fields


def clean(value: Any) -> Any:
    """Copy a JSON-like value so that it can be encoded: the one place text is sanitised.

    Lone surrogates become U+FFFD; integers beyond 64 bits become their digits as text.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {clean(key): clean(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [clean(member) for member in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def encode_json(value: Any) -> bytes:
    """Encode a JSON-like value, whatever text and numbers it holds; see `clean`."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(clean(value))


def decode_json(data: bytes | str) -> Any:
    """Decode JSON as other writers write it: lone surrogates, which are no text, become U+FFFD.

    Raises:
        msgspec.DecodeError: this is no JSON.
        RecursionError: it is nested beyond all reason.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if not _SURROGATE.search(data.encode() if isinstance(data, str) else data):
            raise
    import json

    try:
        return clean(json.loads(data))
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def now() -> str:
    """The time as threads and the wire write it."""
    return rfc3339(datetime.now(UTC))


def rfc3339(moment: datetime) -> str:
    """Write a moment in UTC by RFC 3339, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Message)
# An escape that stands alone is no text; half of a pair that is whole matches too.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _has_extra(message: Message) -> bool:
    if message.extra or (message.usage is not None and message.usage.extra):
        return True
    return any(call.extra for call in message.tool_calls)


def _flat(message: Message) -> dict[str, Any]:
    """The plain form as a dict, every `extra` spread beside the known keys."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    for part in (plain, plain.get("usage"), *plain.get("tool_calls", ())):
        if isinstance(part, dict):
            part.update(part.pop("", {}))
    return plain
