"""Bodies that no good client sends: each is answered, and the connection lives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon

LIST = b'{"jsonrpc":"2.0","id":7007,"method":"session/list"%b}'


async def _error(client: Daemon, body: bytes) -> tuple[Any, int]:
    """Send a body, return id and code of the error that answers it, and use the connection on."""
    client.send(body)
    await client.still_answers()
    (reply,) = client.strays
    client.strays.clear()
    assert set(reply) == {"jsonrpc", "id", "error"}
    assert "Traceback" not in json.dumps(reply)
    return reply["id"], reply["error"]["code"]


NO_JSON = {
    "empty": b"",
    "blank": b"   ",
    "text": b"hello",
    "cut": b'{"jsonrpc":"2.0","id":7007,"meth',
    "trailing comma": b'{"jsonrpc":"2.0","id":7007,}',
    "two values": b"{}{}",
    "single quotes": b"{'id':7}",
    "NaN": LIST % b',"params":{"x":NaN}',
    "NUL": b"\0",
    "control character in a string": b'{"method":"a\nb"}',
    "Latin-1": LIST % b',"params":{"x":"\xe9"}',
    "overlong UTF-8": LIST % b',"params":{"x":"\xc0\x80"}',
    "surrogate in UTF-8": LIST % b',"params":{"x":"\xed\xa0\x80"}',
    "UTF-16": LIST.decode().encode("utf-16"),
    "gzip": b"\x1f\x8b\x08\x00",
    "unfinished escape": b'{"method":"\\u12"}',
}


async def test_what_is_no_json_or_no_utf8_is_a_parse_error_without_an_id() -> None:
    async with daemon() as client:
        for name, body in NO_JSON.items():
            assert (name, *await _error(client, body)) == (name, None, -32700)


UNREADABLE = {
    "a batch": b"[" + LIST % b"" + b"]",
    "an empty batch": b"[]",
    "a batch of anything": b"[1,null]",
    "a number": b"1",
    "a string": b'"session/list"',
    "null": b"null",
    "true": b"true",
    "an empty object": b"{}",
    "too deep": LIST % (b',"params":{"x":' + b"[" * 300 + b"]" * 300 + b"}"),
    "far too deep": b"[" * 200_000 + b"]" * 200_000,
    "deep objects": LIST % (b',"params":' + b'{"x":' * 5000 + b"1" + b"}" * 5000),
    "a number with a huge exponent": LIST % b',"params":{"x":1e999}',
    "a number of five thousand digits": LIST % (b',"params":{"x":%b}' % (b"9" * 5000)),
    "id null": b'{"jsonrpc":"2.0","id":null,"method":"session/list"}',
    "id true": b'{"jsonrpc":"2.0","id":true,"method":"session/list"}',
    "id fraction": b'{"jsonrpc":"2.0","id":1.5,"method":"session/list"}',
    "id object": b'{"jsonrpc":"2.0","id":{"a":1},"method":"session/list"}',
    "id list": b'{"jsonrpc":"2.0","id":[1],"method":"session/list"}',
}


async def test_json_that_is_no_message_is_an_invalid_request_without_an_id() -> None:
    async with daemon() as client:
        for name, body in UNREADABLE.items():
            assert (name, *await _error(client, body)) == (name, None, -32600)


WITH_THEIR_ID = {
    "no jsonrpc": (b'{"id":7007,"method":"session/list"}', -32600),
    "another jsonrpc": (b'{"jsonrpc":"1.0","id":7007,"method":"session/list"}', -32600),
    "jsonrpc as a number": (b'{"jsonrpc":2.0,"id":7007,"method":"session/list"}', -32600),
    "no method": (b'{"jsonrpc":"2.0","id":7007}', -32600),
    "method null": (b'{"jsonrpc":"2.0","id":7007,"method":null}', -32600),
    "method number": (b'{"jsonrpc":"2.0","id":7007,"method":1}', -32600),
    "unknown method": (b'{"jsonrpc":"2.0","id":7007,"method":"no/such"}', -32601),
    "empty method": (b'{"jsonrpc":"2.0","id":7007,"method":""}', -32601),
    "a notification with an id": (b'{"jsonrpc":"2.0","id":7007,"method":"initialized"}', -32601),
    "an event of ours": (b'{"jsonrpc":"2.0","id":7007,"method":"session/done"}', -32601),
    "params array": (LIST % b',"params":[]', -32602),
    "params full array": (LIST % b',"params":[{"agent":"assistant"}]', -32602),
    "params string": (LIST % b',"params":"x"', -32602),
    "params number": (LIST % b',"params":0', -32602),
    "params false": (LIST % b',"params":false', -32602),
    "a parameter of the wrong type": (LIST % b',"params":{"limit":"9"}', -32602),
    "a parameter out of range": (LIST % b',"params":{"limit":0}', -32602),
}


async def test_a_faulty_request_is_answered_under_its_own_id() -> None:
    async with daemon() as client:
        for name, (body, code) in WITH_THEIR_ID.items():
            assert (name, *await _error(client, body)) == (name, 7007, code)


GOOD = {
    "no params": LIST % b"",
    "params null": LIST % b',"params":null',
    "params empty": LIST % b',"params":{}',
    "spaces": b" \r\n\t" + LIST % b"" + b"\n ",
    "a byte order mark": b"\xef\xbb\xbf" + LIST % b"",
    "further members": LIST % b',"_meta":{"a":1},"trace":[],"$schema":"x"',
    "unknown params": LIST % b',"params":{"_meta":{"progressToken":1},"_0":1,"$x":2,"class":3}',
    "nested jsonrpc": LIST % b',"params":{"x":{"jsonrpc":"2.0","id":9,"method":"exit"}}',
    "deeply nested jsonrpc": LIST % b',"params":{"a":[[{"jsonrpc":"2.0","result":{}}]]}',
    "jsonrpc in params": LIST % b',"params":{"jsonrpc":"1.0","id":3,"method":"exit"}',
    "result and error beside": LIST % b',"result":null,"error":null',
    "lone surrogate": LIST % b',"params":{"agent":"\\ud800"}',
    "lone surrogate in a key": LIST % b',"params":{"\\udc00":1}',
    "deep but readable": LIST % (b',"params":{"x":' + b"[" * 200 + b"]" * 200 + b"}"),
    "a long number": LIST % b',"params":{"x":123456789012345678901234567890}',
    "escaped names": b'{"json\\u0072pc":"2.0","id":7007,"method":"session\\/list"}',
}


async def test_odd_but_valid_requests_are_answered_with_a_result() -> None:
    async with daemon() as client:
        for name, body in GOOD.items():
            answer = client.expect(7007)
            client.send(body)
            await client.still_answers()
            await client.until(answer.done)
            assert (name, answer.result()) == (name, {"sessions": []})
        assert client.strays == []


@pytest.mark.parametrize(
    "request_id",
    [0, -1, 2**31, 2**53 + 1, 2**63, 2**64, -(10**30), "", "7", "é\0\u2028", "x" * 9999],
)
async def test_an_id_comes_back_as_it_was_sent(request_id: int | str) -> None:
    async with daemon() as client:
        answer = client.expect(request_id)
        client.send({"jsonrpc": "2.0", "id": request_id, "method": "session/list"})
        await client.until(answer.done)
        assert client.log[-1] == {"jsonrpc": "2.0", "id": request_id, "result": {"sessions": []}}


async def test_an_id_in_flight_is_refused_and_the_first_request_lives_on(
    waiting_model: str,
) -> None:
    async with daemon(env={"TREADLE_MODEL": waiting_model}) as client:
        pair = {"agent": "assistant", "instance": "a"}
        prompt = {"method": "session/prompt", "params": {**pair, "prompt": "Hi"}}
        client.send({"jsonrpc": "2.0", "id": "same", **prompt})
        client.send({"jsonrpc": "2.0", "id": "same", "method": "session/list"})
        refused = await client.stray()
        assert (refused["id"], refused["error"]["code"]) == ("same", -32600)
        assert (await client.request("session/cancel", pair))["cancelled"] is True
        ended = await client.stray()
        assert (ended["id"], ended["result"]["stopReason"]) == ("same", "cancelled")


async def test_an_id_may_be_used_again_as_soon_as_it_was_answered() -> None:
    async with daemon() as client:
        for _ in range(50):
            answer = client.expect(7007)
            client.send(LIST % b"")
            assert await answer == {"sessions": []}


async def test_answers_to_nothing_are_dropped() -> None:
    async with daemon() as client:
        for body in (
            {"id": 7007, "result": {}},
            {"id": None, "result": None},
            {"id": "x", "error": {"code": 1, "message": "no"}},
            {"id": 7007, "error": "no"},
            {"id": {}, "error": []},
            {"result": 1},
        ):
            client.send({"jsonrpc": "2.0", **body})
        await client.still_answers()
        assert client.strays == []


async def test_an_unknown_method_is_told_the_nearest_one() -> None:
    async with daemon() as client:
        with pytest.raises(RpcError, match="did you mean 'session/prompt'"):
            await client.request("session/promt", {})
