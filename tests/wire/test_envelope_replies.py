"""Replies and our own calls: what is written of each, whatever a handler returns or raises."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from treadle.errors import (
    ContextOverflow,
    InvalidParams,
    OptionsDiffer,
    ParseError,
    RequestFailed,
    TreadleError,
    UnknownAgent,
)
from treadle.server.wire.envelope import (
    Notification,
    Request,
    RequestId,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)


class WireResult(msgspec.Struct, rename="camel", omit_defaults=True):
    stop_reason: str = ""
    raw: msgspec.Raw = msgspec.Raw(b"0")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, None),
        ({"a": [1]}, {"a": [1]}),
        (WireResult("end_turn"), {"stopReason": "end_turn"}),
        ({"a": ("x\ud800", {"\udfff": 1})}, {"a": ["x\ufffd", {"\ufffd": 1}]}),
        (WireResult("\ud800", msgspec.Raw(b"[1]")), {"stopReason": "\ufffd", "raw": [1]}),
        ({"a": float("inf")}, {"a": None}),
    ],
)
@pytest.mark.parametrize("request_id", [7, "seven", "", 10**40])
def test_a_result_is_encoded_under_its_id(
    request_id: RequestId, result: object, expected: object
) -> None:
    reply = json.loads(encode_result(request_id, result))
    assert reply == {"jsonrpc": "2.0", "id": request_id, "result": expected}


def deep_list() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("result", [object(), {"a": object(), "b": "\ud800"}, deep_list(), {1j: 1}])
def test_a_result_that_cannot_be_encoded_is_an_internal_error_of_the_same_request(
    result: object,
) -> None:
    reply = json.loads(encode_result(9, result))
    assert (reply["id"], reply["error"]["code"]) == (9, -32603)
    assert "Traceback" not in reply["error"]["message"]


class RequestFailedBadly(RequestFailed):
    reason = "badly"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ParseError("m"), {"code": -32700, "message": "m"}),
        (InvalidParams("m"), {"code": -32602, "message": "m", "data": {"path": ""}}),
        (InvalidParams("m", path="a.b"), {"code": -32602, "message": "m", "data": {"path": "a.b"}}),
        (UnknownAgent("m"), {"code": -32803, "message": "m", "data": {"reason": "unknown_agent"}}),
        (
            ContextOverflow("m", overhead_tokens=5, window=4),
            {
                "code": -32803,
                "message": "m",
                "data": {"reason": "context_overflow", "overheadTokens": 5, "window": 4},
            },
        ),
        (
            OptionsDiffer("m", field="cwd", is_={"snake_case": 1}, wanted=None),
            {
                "code": -32803,
                "message": "m",
                "data": {
                    "reason": "options_differ",
                    "field": "cwd",
                    "is": {"snake_case": 1},
                    "wanted": None,
                },
            },
        ),
        (
            TreadleError("m\ud800", a_b="\udc00"),
            {"code": -32603, "message": "m\ufffd", "data": {"aB": "\ufffd"}},
        ),
        (TreadleError("m\ud800", bad=object()), {"code": -32603, "message": "m\ufffd"}),
        (
            RequestFailedBadly("m", bad=object()),
            {"code": -32803, "message": "m", "data": {"reason": "badly"}},
        ),
    ],
)
@pytest.mark.parametrize("request_id", [None, 1, "a"])
def test_an_error_is_encoded_with_its_data_in_camel_case(
    request_id: RequestId | None, error: TreadleError, expected: dict[str, Any]
) -> None:
    reply = json.loads(encode_error(request_id, error))
    assert reply == {"jsonrpc": "2.0", "id": request_id, "error": expected}


def test_our_own_calls_are_read_back_as_they_were_meant() -> None:
    assert decode(encode_request(4, "session/ask", {"a": "\ud800"})) == Request(
        4, "session/ask", '{"a":"\ufffd"}'.encode()
    )
    assert decode(encode_notification("session/done", {"seq": 1})) == Notification(
        "session/done", b'{"seq":1}'
    )
    assert json.loads(encode_notification("exit")) == {"jsonrpc": "2.0", "method": "exit"}
