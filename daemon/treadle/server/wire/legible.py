"""Whether a body is JSON that everything behind the wire can read.

Owns encoding, depth, numbers and lone surrogates. Refuses to know what the JSON says.
"""

from __future__ import annotations

import re
from itertools import accumulate

import msgspec

from treadle.errors import InvalidRequest, ParseError

# Deeper JSON is refused: it is nothing a person or a model writes, and a recursive reader further
# in (two Python frames a level) stays far below the interpreter's limit of a thousand.
MAX_DEPTH = 256


def legible(body: bytes) -> bytes:
    """Return the body as JSON in UTF-8 that is safe to decode in part and later.

    A byte order mark is dropped, a lone surrogate escape becomes U+FFFD.

    Raises:
        ParseError: it is no JSON, or no UTF-8.
        InvalidRequest: it is nested too deep, or holds a number that no one can read.
    """
    body = body.removeprefix(_BYTE_ORDER_MARK)
    _check_encoding(body)
    _check_depth(body)
    body = _well_formed(body)
    _check_numbers(body)
    return body


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_raw_decoder = msgspec.json.Decoder(msgspec.Raw)

# A string, also one that never ends; possessive, so that it takes each byte once.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)

# Brackets as signed bytes, +1 to open and -1 to close, so that a running sum is the depth.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))

# An escape: a whole pair, or (group 1) half of one, or any other.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)

# Digits become 0 and exponents e, so that a search by plain text finds the shape of a number.
_SHAPES = bytes.maketrans(b"123456789E", b"000000000e")

# A number of fewer digits whose exponent has fewer than three is below 1e299, so it can be read.
_SUSPICIOUS_SHAPES = (b"0e000", b"0e+000", b"0" * 200)


def _check_encoding(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"the body is no UTF-8: {error.reason} at byte {error.start}") from None


def _check_depth(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    steps = _STRING.sub(b"", body).translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH:
        raise InvalidRequest(f"the message is nested deeper than {MAX_DEPTH} levels")


def _well_formed(body: bytes) -> bytes:
    """Return the body if it is JSON, by a second and tolerant look at its escapes if need be."""
    try:
        _raw_decoder.decode(body)
    except msgspec.DecodeError:
        body = _ESCAPE.sub(_without_half, body)
    else:
        return body
    try:
        _raw_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ParseError(f"the body is no JSON: {error}") from None
    return body


def _without_half(escape: re.Match[bytes]) -> bytes:
    return escape[0] if escape[1] is None else rb"\ufffd"


def _check_numbers(body: bytes) -> None:
    shapes = body.translate(_SHAPES)
    if not any(shape in shapes for shape in _SUSPICIOUS_SHAPES):
        return
    try:
        msgspec.json.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"the message holds a number that no one can read: {error}") from None
