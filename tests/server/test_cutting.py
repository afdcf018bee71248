"""Messages cut for a reply: whatever they consist of, what is left is a message and fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from treadle.protocol.sessions import Truncated, WireMessage, WireToolCall
from treadle.server import cutting
from treadle.server.cutting import cut

BOUND = 2000
# What a message needs beside what it says.
ROOM = 400

LONG = "é\n\0\u2028" * 1000


def nested(depth: int) -> Any:
    return {"a": [nested(depth - 1)], "b": LONG} if depth else LONG


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "MESSAGE_BYTES", BOUND)


def said(**members: Any) -> WireMessage:
    return WireMessage(**{"role": "assistant", "content": "", "ordinal": 7, **members})


@pytest.mark.parametrize(
    "message",
    [
        said(content=LONG),
        said(content=[{"type": "text", "text": "hi"}, {"type": "text", "text": LONG}]),
        said(content=[{"type": "text", "text": "hi"}] * 1000),
        said(content=[{f"{number}": number for number in range(1000)}]),
        said(content="hi", reasoning=LONG),
        said(content=LONG, tool_call_id=LONG, at=LONG, model=LONG),
        said(tool_calls=[WireToolCall(id="1", name=LONG, arguments={})]),
        said(tool_calls=[WireToolCall(id="1", name="read", arguments={"a": 1, "text": LONG})]),
        said(tool_calls=[WireToolCall(id="1", name="read", arguments=nested(30))]),
        said(tool_calls=[WireToolCall(id="1", name="read", arguments={})] * 1000),
    ],
    ids=range(10),
)
def test_what_is_left_of_a_long_message_is_one_and_fits(message: WireMessage) -> None:
    short = cut(message, Path("none"))

    encoded = msgspec.json.encode(short)
    assert len(encoded) <= BOUND + ROOM
    assert msgspec.json.decode(encoded, type=WireMessage) == short
    assert short.truncated is not None
    assert short.truncated.path is None
    left_out = len(msgspec.json.encode(message)) - short.truncated.bytes
    assert left_out == len(msgspec.json.encode(msgspec.structs.replace(short, truncated=None)))


def test_a_text_is_cut_at_its_end_and_what_fits_stays_whole() -> None:
    call = WireToolCall(id="1", name="read", arguments={"path": "a.txt", "text": LONG, "more": 1})

    short = cut(said(content="hi", tool_calls=[call], turn=3, is_error=True), Path("none"))

    (left,) = short.tool_calls
    text = left.arguments["text"]
    assert len(text) > 300
    assert LONG.startswith(text)
    assert left == WireToolCall(id="1", name="read", arguments={"path": "a.txt", "text": text})
    assert (short.content, short.turn, short.is_error, short.ordinal) == ("hi", 3, True, 7)


def test_a_message_that_fits_is_shown_as_it_is_and_a_cut_one_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "thread.jsonl"
    path.touch()
    whole = said(content="x" * 1000)

    assert cut(whole, path) is whole
    short = cut(said(content="x" * 5000), path)
    assert short.truncated == Truncated(bytes=5000 - len(short.content), path=str(path))
