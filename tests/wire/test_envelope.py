"""Envelopes: what each body is, what is said of a malformed one, and replies that never fail."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import (
    InvalidParams,
    InvalidRequest,
    ParseError,
    TreadleError,
)
from treadle.server.wire.envelope import (
    EnvelopeError,
    Notification,
    Request,
    RequestId,
    Response,
    ResponseError,
    decode,
    decode_params,
)
from treadle.server.wire.legible import MAX_DEPTH

HEAD = b'"jsonrpc":"2.0"'
FIVE_THOUSAND_DIGITS = b"9" * 5000


def refusal(body: bytes) -> tuple[RequestId | None, type[TreadleError]]:
    with pytest.raises(EnvelopeError) as caught:
        decode(body)
    return caught.value.request_id, type(caught.value.error)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{%b,"id":1,"method":"m"}', Request(1, "m", b"{}")),
        (b'{%b,"id":1,"method":"m","params":null}', Request(1, "m", b"{}")),
        (b'{%b,"id":1,"method":"m","params": { "a":1 } }', Request(1, "m", b'{ "a":1 }')),
        (b'{%b,"id":"","method":""}', Request("", "", b"{}")),
        (b'{%b,"id":-7,"method":"m"}', Request(-7, "m", b"{}")),
        (b'{%b,"id":"\\u00e4\\n","method":"m"}', Request("\u00e4\n", "m", b"{}")),
        (
            b'{%b,"id":123456789012345678901234567890,"method":"m"}',
            Request(123456789012345678901234567890, "m", b"{}"),
        ),
        (b' \r\n{%b,"id":1,"method":"m"}\n ', Request(1, "m", b"{}")),
        (b'\xef\xbb\xbf{%b,"id":1,"method":"m"}', Request(1, "m", b"{}")),
        (b'{%b,"id":1,"method":"m","extra":{"jsonrpc":"1.0"},"_meta":0}', Request(1, "m", b"{}")),
        (b'{%b,"id":1,"id":2,"method":"x","method":"m"}', Request(2, "m", b"{}")),
        (b'{"\\u006asonrpc":"2\\u002e0","id":1,"method":"m"}%.0b', Request(1, "m", b"{}")),
        (b'{%b,"id":1,"method":"m","result":2}', Request(1, "m", b"{}")),
        (b'{%b,"method":"m"}', Notification("m", b"{}")),
        (b'{%b,"method":"m","params":[1]}', Notification("m", b"[1]")),
        (b'{%b,"id":3,"result":null}', Response(3, b"null", None)),
        (b'{%b,"id":3,"result":{"a":[1]}}', Response(3, b'{"a":[1]}', None)),
        (b'{%b,"id":3,"result":1,"error":null}', Response(3, b"1", None)),
        (b'{%b,"id":3,"error":null}', Response(3, b"null", None)),
        (b'{"id":3,"result":1}%.0b', Response(3, b"1", None)),
        (b'{%b,"id":true,"result":1}', Response(None, b"1", None)),
        (
            b'{%b,"id":3,"error":{"code":-1,"message":"no","data":[0]}}',
            Response(3, None, ResponseError(-1, "no", b"[0]")),
        ),
        (
            b'{%b,"id":3,"result":null,"error":{"message":"no"}}',
            Response(3, None, ResponseError(0, "no")),
        ),
        (
            b'{%b,"id":null,"error":{"code":-32700,"message":"no"}}',
            Response(None, None, ResponseError(-32700, "no")),
        ),
        (
            b'{%b,"id":3,"error":"no"}',
            Response(3, None, ResponseError(0, "an error of no known shape")),
        ),
    ],
)
def test_a_well_formed_body_is_a_message(
    body: bytes, message: Request | Notification | Response
) -> None:
    assert decode(body % HEAD) == message


@pytest.mark.parametrize(
    ("body", "request_id", "error"),
    [
        (b"", None, ParseError),
        (b"   ", None, ParseError),
        (b"{", None, ParseError),
        (b"}", None, ParseError),
        (b"nonsense", None, ParseError),
        (b'{%b,"id":1,"method":"m"}x', None, ParseError),
        (b'{%b,"id":1,"method":"m"', None, ParseError),
        (b'{%b,"id":1,"method":"m",}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":NaN}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":tru}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":01}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":"\n"}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":"\\x"}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":"\\ud800\\x"}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":"\xff"}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","params":{"a":"\xed\xa0\x80"}}', None, ParseError),
        (b'{%b,"id":1,"method":"m","\xc3(":1}', None, ParseError),
        ('{"id":1}'.encode("utf-16"), None, ParseError),
        (b"[1,", None, ParseError),
        (b"[]", None, InvalidRequest),
        (b'[{%b,"id":1,"method":"m"}]', None, InvalidRequest),
        (b' [{%b,"id":1,"method":"m"},{%b,"id":2,"method":"\\ud800"}]', None, InvalidRequest),
        (b'"text"', None, InvalidRequest),
        (b"42", None, InvalidRequest),
        (b"null", None, InvalidRequest),
        (b"{}", None, InvalidRequest),
        (b'{"id":1,"method":"m"}', 1, InvalidRequest),
        (b'{"jsonrpc":"1.0","id":"a","method":"m"}', "a", InvalidRequest),
        (b'{"jsonrpc":2.0,"id":1,"method":"m"}', 1, InvalidRequest),
        (b'{"jsonrpc":"1.0","method":"m"}', None, InvalidRequest),
        (b'{%b,"id":1}', 1, InvalidRequest),
        (b'{%b,"id":1,"method":5}', 1, InvalidRequest),
        (b'{%b,"id":1,"method":null}', 1, InvalidRequest),
        (b'{%b,"method":{}}', None, InvalidRequest),
        (b'{%b,"id":null,"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":true,"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":1.5,"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":1.0,"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":1e2,"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":[1],"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":{"a":1},"method":"m"}', None, InvalidRequest),
        (b'{%b,"id":' + FIVE_THOUSAND_DIGITS + b',"method":"m"}', None, InvalidRequest),
        (
            b'{%b,"id":1,"method":"m","params":{"a":' + FIVE_THOUSAND_DIGITS + b"}}",
            None,
            InvalidRequest,
        ),
        (b'{%b,"id":1,"method":"m","params":{"a":' + b"9" * 400 + b".5}}", None, InvalidRequest),
        (b'{%b,"id":1,"method":"m","params":{"a":-1E+999}}', None, InvalidRequest),
        (b'{%b,"id":1,"method":"m","params":{"a":[1.0e00400]}}', None, InvalidRequest),
        (b'{%b,"id":1,"method":"m","x":1e400}', None, InvalidRequest),
        (
            b'{%b,"id":1,"method":"m","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            None,
            InvalidRequest,
        ),
        (
            b'{%b,"id":1,"method":"m","params":' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}",
            None,
            InvalidRequest,
        ),
        (b"[" * 100_000, None, InvalidRequest),
        (b'{%b,"id":1,"method":"m","params":[]}', 1, InvalidParams),
        (b'{%b,"id":"a","method":"m","params":"text"}', "a", InvalidParams),
        (b'{%b,"id":1,"method":"m","params":0}', 1, InvalidParams),
        (b'{%b,"id":1,"method":"m","params":false}', 1, InvalidParams),
    ],
)
def test_a_malformed_body_is_refused_with_what_can_be_known_of_it(
    body: bytes, request_id: RequestId | None, error: type[TreadleError]
) -> None:
    assert refusal(body.replace(b"%b", HEAD)) == (request_id, error)


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"\uDFFF", "\ufffd"),
        (rb"a\ud83dz", "a\ufffdz"),
        (rb"\ud800\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\\ud800\ud800", "\\ud800\ufffd"),
        (rb"\\\ud800", "\\\ufffd"),
        (rb"\"\udc00\u0000\/", '"\ufffd\0/'),
    ],
)
def test_a_lone_surrogate_is_a_replacement_character(escaped: bytes, text: str) -> None:
    body = b'{%b,"id":"%b","method":"m","params":{"a":"%b"}}' % (HEAD, escaped, escaped)
    message = decode(body)
    assert isinstance(message, Request)
    assert (message.id, json.loads(message.params)) == (text, {"a": text})


def test_what_depth_is_allowed_is_counted_without_the_brackets_in_text() -> None:
    levels = MAX_DEPTH - 1
    deep = b"[" * (levels - 1) + b'"\\"' + b"[{" * 5000 + b'"' + b"]" * (levels - 1)
    body = b'{%b,"method":"m","params":{"a":%b}}' % (HEAD, deep)
    assert decode(body) == Notification("m", b'{"a":%b}' % deep)
    assert refusal(body.replace(b'"a":', b'"a":[', 1)[:-1] + b"]}") == (None, InvalidRequest)


def test_params_reach_the_method_byte_for_byte() -> None:
    params = (
        rb'{"jsonrpc":{"jsonrpc":"1.0","id":0},"_meta":{},"_x":1,"$y":2,"class":3,"a b":[1e99]}'
    )
    assert decode(b'{%b,"id":1,"method":"m","params":%b}' % (HEAD, params)) == Request(
        1, "m", params
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def without_halves(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_object_is_taken_as_params(params: dict[str, Any]) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
    escaped = json.dumps(call)
    plain = without_halves(json.dumps(call, ensure_ascii=False))
    for body in (escaped, plain):
        message = decode(body.encode())
        assert isinstance(message, Request)
        assert json.dumps(json.loads(message.params), ensure_ascii=False) == json.dumps(
            json.loads(plain)["params"], ensure_ascii=False
        )


def is_json(body: bytes) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(body.decode(), parse_constant=refuse)
    except ValueError:
        return False
    return True


@settings(deadline=None, derandomize=True, max_examples=400)
@given(
    st.binary(max_size=60)
    | st.text('{}[]",:01.eE+-\\u dtrufalsn', max_size=60).map(str.encode)
    | json_values.map(json.dumps).map(str.encode)
)
def test_a_body_is_no_json_to_us_exactly_when_it_is_none_to_others(body: bytes) -> None:
    assert refusal(body) == (None, InvalidRequest if is_json(body) else ParseError)


class Block(msgspec.Struct):
    type: str
    text: str = ""


class PromptParams(msgspec.Struct, rename="camel"):
    agent: str
    prompt: str | list[Block] = ""
    max_turns: int = 1
    options: dict[str, int] = {}


class Narrow(msgspec.Struct, forbid_unknown_fields=True):
    tools: int = 0


class Outer(msgspec.Struct):
    options: Narrow = msgspec.field(default_factory=Narrow)


@pytest.mark.parametrize(
    ("kind", "params", "path"),
    [
        (PromptParams, b'{"agent":5}', "agent"),
        (PromptParams, b"{}", "agent"),
        (PromptParams, b'{"agent":"a","maxTurns":"x"}', "maxTurns"),
        (
            PromptParams,
            b'{"agent":"a","prompt":[{"type":"t"},{"type":"t","text":1}]}',
            "prompt[1].text",
        ),
        (PromptParams, b'{"agent":"a","prompt":[{}]}', "prompt[0].type"),
        (PromptParams, b'{"agent":"a","options":{"x":"y"}}', "options[...]"),
        (Outer, b'{"options":{"tolls":1}}', "options.tolls"),
        (PromptParams, b"[1]", ""),
    ],
)
def test_params_of_the_wrong_shape_are_refused_with_the_path(
    kind: type[msgspec.Struct], params: bytes, path: str
) -> None:
    with pytest.raises(InvalidParams) as caught:
        decode_params(msgspec.json.Decoder(kind), params)
    assert caught.value.data == {"path": path}
    assert caught.value.message.startswith(f"params.{path}: " if path else "params: ")
    assert "$" not in caught.value.message


def test_params_that_fit_are_decoded() -> None:
    params = decode_params(msgspec.json.Decoder(PromptParams), b'{"agent":"a","_meta":{},"z":[1]}')
    assert params == PromptParams(agent="a")
