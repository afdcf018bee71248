"""Streams that no good client writes: what can be read is answered, and the connection lives."""

from __future__ import annotations

import random
from typing import Any

from support.daemon import Daemon, daemon, frame

# The documented cap on one frame.
MAX_FRAME_BYTES = 64 << 20

SEED = 20240229


def _list(request_id: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"session/list"}' % request_id


async def _answered(client: Daemon, request_id: int) -> None:
    """Take the reply to a `session/list` that was sent by hand; it is the only one so far."""
    reply = await client.stray()
    assert reply == {"jsonrpc": "2.0", "id": request_id, "result": {"sessions": []}}
    assert client.strays == []


BODY = _list(7)

HEADERS = {
    "lower case": b"content-length: %d\r\n\r\n",
    "upper case": b"CONTENT-LENGTH: %d\r\n\r\n",
    "no space": b"Content-Length:%d\r\n\r\n",
    "many spaces": b"Content-Length :   %d  \r\n\r\n",
    "leading zeros": b"Content-Length: 000%d\r\n\r\n",
    "bare LF": b"Content-Length: %d\n\n",
    "mixed line ends": b"Content-Length: %d\r\n\n",
    "a type before": b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"
    b"Content-Length: %d\r\n\r\n",
    "a type after": b"Content-Length: %d\r\nContent-Type: application/json; charset=utf8\r\n\r\n",
    "an unknown header": b"X-Trace: a: b\r\nContent-Length: %d\r\n\r\n",
    "empty lines before": b"\r\n\r\n\nContent-Length: %d\r\n\r\n",
    "the same length twice": b"Content-Length: %d\r\nContent-Length: 48\r\n\r\n",
}


async def test_every_usual_spelling_of_the_headers_is_read() -> None:
    assert len(BODY) == 48
    async with daemon() as client:
        for name, header in HEADERS.items():
            await client.raw(header % len(BODY) + BODY)
            await client.until(lambda: bool(client.strays))
            assert (name, client.strays.pop()["result"]) == (name, {"sessions": []})


NOISE = {
    "a line of text": b"hello there\r\n",
    "text without a line end": b"hello there",
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "headers without a length": b"Content-Type: x\r\n\r\n",
    "a length that is no number": b"Content-Length: many\r\n\r\n",
    "a negative length": b"Content-Length: -5\r\n\r\n",
    "a hexadecimal length": b"Content-Length: 0x10\r\n\r\n",
    "two lengths": b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length beyond all measure": b"Content-Length: %d\r\n\r\n" % 10**15,
    "a length of five thousand digits": b"Content-Length: %b\r\n\r\n" % (b"9" * 5000),
    "endless headers": b"X: " + b"y" * 20_000 + b"\r\n\r\n",
    "a megabyte on one line": b"z" * (1 << 20),
    "NUL bytes": b"\0" * 100,
    "a bare body": b'{"jsonrpc":"2.0","id":1,"method":"session/list"}\n',
}


async def test_noise_between_frames_is_told_once_and_the_next_frame_is_read() -> None:
    async with daemon() as client:
        for name, noise in NOISE.items():
            await client.raw(noise + frame(BODY))
            told = await client.stray()
            assert (name, told["id"], told["error"]["code"] in (-32700, -32600)) == (
                name,
                None,
                True,
            )
            await _answered(client, 7)


async def test_a_stream_may_be_cut_at_every_byte() -> None:
    async with daemon() as client:
        whole = frame(BODY)
        for cut in range(1, len(whole)):
            await client.raw(whole[:cut])
            await client.raw(whole[cut:])
            await _answered(client, 7)
        for byte in whole:
            await client.raw(bytes([byte]))
        await _answered(client, 7)


async def test_many_frames_in_one_write_are_all_answered_once() -> None:
    async with daemon() as client:
        await client.raw(b"".join(frame(_list(number)) for number in range(1000, 2000)))
        await client.until(lambda: len(client.strays) == 1000)
        assert sorted(reply["id"] for reply in client.strays) == list(range(1000, 2000))
        assert all(reply["result"] == {"sessions": []} for reply in client.strays)


async def test_a_frame_over_the_cap_is_refused_and_the_connection_lives() -> None:
    async with daemon() as client:
        padding = b" " * (MAX_FRAME_BYTES + 1 - len(BODY))
        await client.raw(frame(BODY + padding))
        refused = await client.stray()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
        assert str(MAX_FRAME_BYTES) in refused["error"]["message"]
        await client.raw(frame(BODY))
        await _answered(client, 7)


async def test_a_frame_of_several_megabytes_is_taken() -> None:
    async with daemon() as client:
        await client.raw(frame(BODY + b" " * (8 << 20)))
        await _answered(client, 7)


async def test_random_bytes_between_frames_never_cost_a_reply() -> None:
    chance = random.Random(SEED)
    async with daemon() as client:
        for number in range(1000, 1200):
            noise = chance.randbytes(chance.choice([1, 3, 50, 500, 5000]))
            await client.raw(noise + frame(_list(number)))
            await client.until(lambda: any(reply["id"] is not None for reply in client.strays))
            assert [_outline(reply) for reply in client.strays] in (
                [(None, -32700), (number, None)],
                [(number, None)],  # noise that is nothing but line ends
            )
            client.strays.clear()


async def test_frames_of_random_bytes_get_one_error_each() -> None:
    chance = random.Random(SEED)
    async with daemon() as client:
        for _ in range(200):
            await client.raw(frame(chance.randbytes(chance.randrange(200))))
        await client.still_answers()
        assert {_outline(reply) for reply in client.strays} <= {(None, -32700), (None, -32600)}
        assert len(client.strays) == 200


async def test_a_request_with_a_changed_byte_gets_one_reply_at_most_and_the_next_one_its_own() -> (
    None
):
    chance = random.Random(SEED)
    async with daemon() as client:
        for number in range(1000, 1300):
            changed = bytearray(BODY)
            changed[chance.randrange(len(BODY))] = chance.randrange(256)
            await client.raw(frame(bytes(changed)))
            await client.raw(frame(_list(number)))
            await client.until(lambda n=number: any(reply["id"] == n for reply in client.strays))
        await client.still_answers()
        numbers = [reply["id"] for reply in client.strays]
        assert [n for n in numbers if isinstance(n, int) and n >= 1000] == list(range(1000, 1300))
        assert len(numbers) <= 600


def _outline(reply: dict[str, Any]) -> tuple[object, int | None]:
    return reply["id"], reply.get("error", {}).get("code")
