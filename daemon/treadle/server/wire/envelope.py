"""JSON-RPC 2.0: a body into a request, a notification or a response, and those into a body.

Owns what makes a message well formed, and how much of a malformed one can still be answered.
Refuses to know methods, sessions and connections: params stay bytes until a method's decoder
reads them with `decode_params`.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, TypeVar

import msgspec

from treadle.errors import InternalError, InvalidParams, InvalidRequest, ProtocolError, TreadleError
from treadle.secrets import known
from treadle.server.wire.legible import legible
from treadle.thread.message import clean

RequestId: TypeAlias = int | str
"""An id as it came; an integer keeps all of its digits."""

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True):
    """A call that wants exactly one reply; `params` is JSON, an object."""

    id: RequestId
    method: str
    params: bytes


class Notification(msgspec.Struct, frozen=True):
    """A call that is never answered; `params` is JSON, an object unless the client erred."""

    method: str
    params: bytes


class ResponseError(msgspec.Struct, frozen=True):
    """The failure of a request of ours, as far as its shape could be read; `data` is JSON."""

    code: int = 0
    message: str = ""
    data: bytes | None = None


class Response(msgspec.Struct, frozen=True):
    """The answer to a request of ours: `result` is JSON, or `error` is set.

    `id` is None when the client could not read what it answers, or sent no id we can read.
    """

    id: RequestId | None
    result: bytes | None
    error: ResponseError | None


Envelope: TypeAlias = Request | Notification | Response


class EnvelopeError(Exception):
    """No message: the error to reply with, and the request's id where it could be read."""

    def __init__(self, request_id: RequestId | None, error: ProtocolError) -> None:
        super().__init__(error.message)
        self.request_id = request_id
        self.error = error


def decode(body: bytes) -> Envelope:
    """Read one message.

    Args:
        body: what a frame held.

    Raises:
        EnvelopeError: with a ParseError when it is no JSON or no UTF-8, an InvalidRequest when
            it is JSON that is no message or that nobody can read, an InvalidParams when the
            params of a request are no object.
    """
    try:
        members = _members(legible(body))
    except ProtocolError as error:
        raise EnvelopeError(None, error) from None
    if not members.method and (members.result or members.error):
        return _response(members)
    return _call(members)


def decode_params(decoder: msgspec.json.Decoder[T], params: bytes) -> T:
    """Read the params of one method.

    Args:
        decoder: reads the method's params.
        params: those of a request or a notification.

    Raises:
        InvalidParams: they do not fit; `path` says where, such as `prompt[0].text`.
    """
    try:
        return decoder.decode(params)
    except msgspec.DecodeError as error:
        raise _invalid_params(str(error)) from None
    except RecursionError:
        raise InvalidParams("params: nested too deep to be read here") from None


def encode_result(request_id: RequestId, result: object) -> bytes:
    """Encode a reply.

    It never fails: a result that cannot be encoded becomes an InternalError to the same request.
    """
    try:
        return _encode(_Result(id=request_id, result=result))
    except InternalError as error:
        return encode_error(request_id, error)


def encode_error(request_id: RequestId | None, error: TreadleError) -> bytes:
    """Encode the reply that tells of a failure.

    It never fails: data that cannot be encoded is left out, but for its reason.

    Args:
        request_id: the request at fault; None when its id could not be read.
        error: what went wrong.
    """
    members = error_members(error)
    try:
        return _encode(_Failure(id=request_id, error=members))
    except InternalError:
        # What clients switch on is text, so it can be said; what stood beside it can not.
        data = members.pop("data", {})
        said = {"data": {"reason": data["reason"]}} if "reason" in data else {}
        return _encode(_Failure(id=request_id, error=members | said))


def error_members(error: TreadleError) -> dict[str, Any]:
    """Return an error as the wire shows it: its data in camelCase, with its `reason`.

    The one place where an error's text leaves us, so secrets are left out here.
    """
    data = {_camel(name): value for name, value in error.data.items()}
    if reason := getattr(error, "reason", ""):
        data = {"reason": reason, **data}
    members = {"code": error.code, "message": error.message}
    return dict(known().redact_all({**members, "data": data} if data else members))


def encode_notification(method: str, params: object = None) -> bytes:
    """Encode a notification; without params when they are None.

    Raises:
        InternalError: the params cannot be encoded.
    """
    return _encode(_Call(method=method, params=_absent_if_none(params)))


def encode_request(request_id: int, method: str, params: object = None) -> bytes:
    """Encode a request of ours; its id is an integer because Vim can answer no other.

    Raises:
        InternalError: the params cannot be encoded.
    """
    return _encode(_Call(id=request_id, method=method, params=_absent_if_none(params)))


_ABSENT = msgspec.Raw(b"")


class _Members(msgspec.Struct):
    """The members of a message as they stand: none may have a type yet, or it would hide the id."""

    jsonrpc: msgspec.Raw = _ABSENT
    id: msgspec.Raw = _ABSENT
    method: msgspec.Raw = _ABSENT
    params: msgspec.Raw = _ABSENT
    result: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


class _ErrorMembers(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: msgspec.Raw = _ABSENT


class _Result(msgspec.Struct):
    id: RequestId
    result: object
    jsonrpc: str = "2.0"


class _Failure(msgspec.Struct):
    id: RequestId | None
    error: dict[str, Any]
    jsonrpc: str = "2.0"


class _Call(msgspec.Struct):
    method: str
    jsonrpc: str = "2.0"
    id: int | msgspec.UnsetType = msgspec.UNSET
    params: object = msgspec.UNSET


_members_decoder = msgspec.json.Decoder(_Members)
_error_decoder = msgspec.json.Decoder(_ErrorMembers)
_id_decoder = msgspec.json.Decoder(int | str)
_text_decoder = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()

_NOT_FOUND = re.compile(r"(?:missing required|contains unknown) field `(.*)`")


def _members(body: bytes) -> _Members:
    try:
        return _members_decoder.decode(body)
    except msgspec.ValidationError:
        raise InvalidRequest(_why_no_object(body)) from None


def _why_no_object(body: bytes) -> str:
    if body.lstrip().startswith(b"["):
        return "batches are not taken: send each message in a frame of its own"
    return "a message is a JSON object"


def _call(members: _Members) -> Request | Notification:
    request_id = _request_id(members.id)
    if _text(members.jsonrpc) != "2.0":
        raise EnvelopeError(request_id, InvalidRequest('the member `jsonrpc` must be "2.0"'))
    method = _text(members.method)
    if method is None:
        raise EnvelopeError(request_id, InvalidRequest("the member `method` must be a string"))
    params = bytes(members.params)
    if params in (b"", b"null"):
        params = b"{}"
    if not members.id:
        return Notification(method, params)
    if request_id is None:
        raise EnvelopeError(None, InvalidRequest("the member `id` must be an integer or a string"))
    if not params.startswith(b"{"):
        raise EnvelopeError(request_id, InvalidParams("the member `params` must be an object"))
    return Request(request_id, method, params)


def _response(members: _Members) -> Response:
    """Read a response; whatever its faults it is never answered, so nothing is raised."""
    request_id = _request_id(members.id)
    error = bytes(members.error)
    if error in (b"", b"null"):
        return Response(request_id, bytes(members.result) or b"null", None)
    try:
        read = _error_decoder.decode(error)
    except msgspec.DecodeError:
        return Response(request_id, None, ResponseError(message="an error of no known shape"))
    data = bytes(read.data) or None
    return Response(request_id, None, ResponseError(read.code, read.message, data))


def _request_id(raw: msgspec.Raw) -> RequestId | None:
    try:
        return _id_decoder.decode(raw)
    except msgspec.DecodeError:
        return None


def _text(raw: msgspec.Raw) -> str | None:
    try:
        return _text_decoder.decode(raw)
    except msgspec.DecodeError:
        return None


def _invalid_params(problem: str) -> InvalidParams:
    """Turn msgspec's words into ours: its `$.a.b` is our path `a.b`."""
    what, _, where = problem.partition(" - at `$")
    path = where.removesuffix("`").removeprefix(".")
    if (field := _NOT_FOUND.search(what)) is not None:
        path = f"{path}.{field[1]}" if path else field[1]
    return InvalidParams(f"params.{path}: {what}" if path else f"params: {what}", path=path)


def _encode(message: msgspec.Struct) -> bytes:
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encode_cleaned(message)
    except Exception as error:
        raise InternalError(f"a message could not be encoded: {error}") from error


def _encode_cleaned(message: msgspec.Struct) -> bytes:
    """Encode text that is no UTF-8, with U+FFFD in the place of what is none."""
    try:
        plain = msgspec.to_builtins(message, enc_hook=_unraw)
        # The id is echoed as it came, also where `clean` would turn a huge integer into text.
        same_id = {"id": plain["id"]} if "id" in plain else {}
        return _encoder.encode({**clean(plain), **same_id})
    except Exception as error:
        raise InternalError(f"a message could not be encoded: {error}") from error


def _unraw(value: object) -> object:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"objects of type {type(value).__name__} have no JSON")


def _absent_if_none(params: object) -> object:
    return msgspec.UNSET if params is None else params


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
