"""Framing: whatever the bytes and however they are cut, the frames come out."""

from __future__ import annotations

import random
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import InvalidRequest, ParseError
from treadle.server.wire.framing import (
    MAX_HEADER_BYTES,
    BadFrame,
    Frame,
    FrameParser,
    encode_frame,
)

BODY = b'{"jsonrpc":"2.0"}'


def parse(*chunks: bytes, max_frame_bytes: int = 1 << 20) -> list[Frame]:
    parser = FrameParser(max_frame_bytes)
    return [frame for chunk in chunks for frame in parser.feed(chunk)]


def outline(frames: list[Frame]) -> list[bytes | int]:
    """Bodies as they are, bad frames as their codes."""
    return [frame if isinstance(frame, bytes) else frame.code for frame in frames]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\r\n\r\n",
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\n\n",
        b"  Content-Length \t: \t %d  \r\n\r\n",
        b"Content-Length: 000%d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Type: x\nX-Empty:\r\nContent-Length: %d\n\r\n",
        b"X-Content-Length: 3\r\nContent-Length: %d\r\n\r\n",
        b"\r\n\nContent-Length: %d\r\n\r\n",
    ],
)
def test_every_spelling_of_the_header_is_read(header: bytes) -> None:
    assert parse(header % len(BODY) + BODY + encode_frame(b"next")) == [BODY, b"next"]


def test_a_header_said_twice_alike_counts_once() -> None:
    assert parse(b"Content-Length: 2\r\nContent-Length: 02\r\n\r\nhi") == [b"hi"]


def test_an_empty_body_is_a_frame() -> None:
    assert parse(encode_frame(b"") + encode_frame(b"a")) == [b"", b"a"]


def test_a_stream_cut_at_any_byte_gives_the_same_frames() -> None:
    stream = (
        encode_frame(BODY) + b"noise\n" + b"content-length:4\n\nnull" + encode_frame(b"\r\n\r\n")
    )
    whole = parse(stream)
    assert outline(whole) == [BODY, ParseError.code, b"null", b"\r\n\r\n"]
    for cut in range(len(stream) + 1):
        assert parse(stream[:cut], stream[cut:]) == whole
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == whole


pieces = st.one_of(
    st.binary(max_size=60).map(encode_frame),
    st.binary(max_size=40),
    st.sampled_from(
        [b"\r\n", b"\n", b"Content-Length: ", b"Content-Length: -1\r\n\r\n", b"a: b\r\n", b"9" * 30]
    ),
)


@settings(deadline=None, derandomize=True)
@given(st.lists(pieces, max_size=8), st.data())
def test_any_chunking_gives_the_same_frames(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    edges = [0, *sorted(cuts), len(stream)]
    assert parse(*(stream[a:b] for a, b in pairwise(edges))) == parse(stream)


@pytest.mark.parametrize("seed", range(400))
def test_a_request_after_random_bytes_is_still_found(seed: int) -> None:
    source = random.Random(seed)
    hard = bytes(source.choices(b'abc:\n\r -{}"0123', k=source.randrange(1, 90)))
    noise = hard if seed % 2 else source.randbytes(source.randrange(1, 20_000))
    frames = parse(noise + encode_frame(BODY) + encode_frame(b"next"))
    assert frames[-2:] == [BODY, b"next"]


@pytest.mark.parametrize(
    "bad",
    [
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: abc\r\n\r\n{}",
        b"Content-Length: 2.0\r\n\r\n{}",
        b"Content-Length:\r\n\r\n{}",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Type: x\r\n\r\n{}",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\xff\x00",
        b"X: " + b"y" * MAX_HEADER_BYTES + b"\r\n\r\n{}",
        b"X: y\r\n" * MAX_HEADER_BYTES + b"\r\n{}",
        b"z" * 10 * MAX_HEADER_BYTES,
        b"Content-Length: 2\r\nno header\r\n\r\n{}",
        b'{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0"}\n',
    ],
)
def test_noise_is_reported_once_and_the_next_frame_is_found(bad: bytes) -> None:
    stream = bad + encode_frame(BODY)
    assert outline(parse(stream)) == [ParseError.code, BODY]
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == parse(stream)


def test_each_unreadable_length_gets_its_own_answer() -> None:
    bad = b"Content-Length: x\r\n\r\n{}"
    assert outline(parse(bad, bad, encode_frame(BODY))) == [ParseError.code] * 2 + [BODY]


def test_a_body_longer_than_announced_costs_only_itself() -> None:
    stream = b"Content-Length: 4\r\n\r\n{ }  }" + encode_frame(BODY)
    assert outline(parse(stream)) == [b"{ } ", ParseError.code, BODY]


def test_an_oversized_frame_is_answered_at_once_skipped_and_the_stream_lives() -> None:
    parser = FrameParser(max_frame_bytes=10)
    assert outline(parser.feed(b"Content-Length: 11\r\n\r\n")) == [InvalidRequest.code]
    assert parser.feed(b"Content-Le") == []
    assert parser.feed(b"n" + encode_frame(b"0123456789")) == [b"0123456789"]


def test_an_oversized_frame_takes_no_memory() -> None:
    size_bytes = 64 << 20
    chunk = b"x" * (64 << 10)
    parser = FrameParser(max_frame_bytes=1 << 10)
    tracemalloc.start()
    try:
        parser.feed(b"Content-Length: %d\r\n\r\n" % size_bytes)
        for _ in range(size_bytes // len(chunk)):
            assert parser.feed(chunk) == []
        assert tracemalloc.get_traced_memory()[1] < 256 << 10
    finally:
        tracemalloc.stop()
    assert parser.feed(encode_frame(BODY)) == [BODY]


def test_noise_without_a_line_end_takes_no_memory() -> None:
    chunk = b"x" * (64 << 10)
    parser = FrameParser()
    tracemalloc.start()
    try:
        for _ in range(200):
            parser.feed(chunk)
        assert tracemalloc.get_traced_memory()[1] < 512 << 10
    finally:
        tracemalloc.stop()
    assert parser.feed(encode_frame(BODY)) == [BODY]


@pytest.mark.parametrize("announced", [1 << 40, 10**18 - 1])
def test_an_absurd_length_does_not_make_the_connection_deaf(announced: int) -> None:
    stream = b"Content-Length: %d\r\n\r\n" % announced + encode_frame(BODY)
    assert outline(parse(stream)) == [InvalidRequest.code, BODY]


def test_a_bad_frame_knows_the_error_to_reply_with() -> None:
    assert type(BadFrame("m", InvalidRequest.code).error) is InvalidRequest
    assert type(BadFrame("m", ParseError.code).error) is ParseError


class Counted(bytes):
    """Bytes that count how many of them were looked at or copied."""

    looked_at = 0

    def find(self, *arguments: Any) -> int:
        _, start, end = arguments
        found = super().find(*arguments)
        Counted.looked_at += (found + 1 if found >= 0 else min(end, len(self))) - start
        return found

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        Counted.looked_at += len(part)
        return part


@pytest.mark.parametrize(
    "stream",
    [
        encode_frame(b"{}") * 5_000,
        encode_frame(b"x" * 400_000),
        b"x" * 400_000,
        b"junk\n" * 50_000,
        b"a: b\r\n" * 50_000,
        b"Content-Length: x\r\n\r\n" * 5_000,
        b"Content-Length: 2000000\r\n\r\n" + b"y" * 400_000,
    ],
)
@pytest.mark.parametrize("chunk_bytes", [7, 65_536, 1 << 20])
def test_each_byte_is_looked_at_a_bounded_number_of_times(stream: bytes, chunk_bytes: int) -> None:
    Counted.looked_at = 0
    parser = FrameParser(max_frame_bytes=1 << 20)
    for start in range(0, len(stream), chunk_bytes):
        parser.feed(Counted(stream[start : start + chunk_bytes]))
    assert Counted.looked_at <= 3 * len(stream)
