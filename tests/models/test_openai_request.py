"""How a conversation becomes a request's bytes, and a stream's bytes become events."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from treadle.models.completion import ToolSpec
from treadle.models.openai import request
from treadle.models.openai.request import HistoryEncoder, encode_message
from treadle.models.openai.sse import EventReader
from treadle.thread.message import Message, ToolCall

READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        (Message("system", "Be kind."), {"role": "system", "content": "Be kind."}),
        (Message("user", "Hi", at="now", turn=3), {"role": "user", "content": "Hi"}),
        (
            Message("assistant", "Hello", reasoning="A guest.", model="m", partial=True),
            {"role": "assistant", "content": "Hello"},
        ),
        (
            Message("tool", "12 lines", tool_call_id="c", is_error=True),
            {"role": "tool", "tool_call_id": "c", "content": "12 lines"},
        ),
        (
            Message("user", [{"type": "text", "text": "Look:"}, {"type": "image", "file": "a"}]),
            {"role": "user", "content": "Look:\n[image not shown]"},
        ),
        (Message("user", "a\ud83d!"), {"role": "user", "content": "a\ufffd!"}),
    ],
)
def test_a_message_is_sent_as_providers_want_it(message: Message, sent: dict[str, Any]) -> None:
    assert json.loads(encode_message(message)) == sent


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        (ToolCall("c", "read", {"path": "\u00fc", "n": 1}), "read", '{"path":"\u00fc","n":1}'),
        (ToolCall("c", "read", raw_arguments='{"path":'), "read", "{}"),
        (ToolCall("c", "functions.read me"), "functions_read_me", "{}"),
        (ToolCall("c", "x" * 70), "x" * 64, "{}"),
        (ToolCall("c", ""), "unnamed", "{}"),
        (ToolCall("c", "read", {"text": "\udc00"}), "read", '{"text":"\ufffd"}'),
    ],
)
def test_a_call_goes_back_in_a_form_that_no_provider_refuses(
    call: ToolCall, name: str, arguments: str
) -> None:
    sent = json.loads(encode_message(Message("assistant", tool_calls=[call])))
    function = {"name": name, "arguments": arguments}
    assert sent == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }


def test_a_message_that_says_nothing_is_not_sent() -> None:
    said = [Message("user", "Hi"), Message("assistant", reasoning="Hm."), Message("user", "?")]
    body = json.loads(HistoryEncoder().request("m", said, []))
    assert [message["content"] for message in body["messages"]] == ["Hi", "?"]


def test_the_same_conversation_gives_the_same_bytes() -> None:
    said = [Message("system", "Be kind."), Message("user", "Hi")]
    encoder = HistoryEncoder()
    first = encoder.request("m", said, [READ])
    assert first == encoder.request("m", said, [READ])
    assert first == HistoryEncoder().request("m", [*said], [READ])


def test_a_later_request_begins_with_the_bytes_of_the_earlier_one() -> None:
    encoder = HistoryEncoder()
    said = [Message("user", "Hi")]
    first = encoder.request("m", said, [])
    said += [Message("assistant", "Hello"), Message("user", "Bye")]
    prefix = first[: first.index(b'],"stream"')]
    assert encoder.request("m", said, []).startswith(prefix)


def test_without_tools_none_are_mentioned_and_other_tools_are_sent_anew() -> None:
    said = [Message("user", "Hi")]
    encoder = HistoryEncoder()
    assert b'"name":"read"' in encoder.request("m", said, [READ])
    other = ToolSpec("grep", "Searches.", {"type": "object"})
    assert json.loads(encoder.request("m", said, [other]))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "grep",
                "description": "Searches.",
                "parameters": other.parameters,
            },
        }
    ]
    assert b"tools" not in encoder.request("m", said, [])


def test_only_what_is_new_is_encoded_and_what_is_gone_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[Message] = []

    def encode(message: Message) -> bytes:
        encoded.append(message)
        return encode_message(message)

    monkeypatch.setattr(request, "encode_message", encode)
    encoder = HistoryEncoder()
    said = [Message("user", f"message {number}") for number in range(1000)]
    encoder.request("m", said, [])
    assert encoded == said

    encoded.clear()
    said += [Message("assistant", "Hello"), Message("user", "Bye")]
    encoder.request("m", said, [])
    assert encoded == said[-2:]

    encoded.clear()
    body = json.loads(encoder.request("m", said[-10:], []))
    assert (encoded, len(body["messages"])) == ([], 10)
    encoder.request("m", said, [])
    assert encoded == said[:-10]


def test_events_are_the_same_however_their_bytes_are_cut() -> None:
    stream = (
        b": hello\r\nevent: x\r\ndata: one\r\n\r\n"
        b"data:two\r\ndata: three\r\n\r\n\n\n"
        b"id: 7\rdata: four\r\rretry: 3\n\n"
        b"data\n\ndata:\n\ndata: last"
    )
    expected = [b"one", b"two\nthree", b"four", b"", b"last"]
    dice = random.Random(7)
    for _ in range(300):
        reader, events, rest = EventReader(), [], stream
        while rest:
            size = dice.randint(1, 12)
            events += reader.feed(rest[:size])
            rest = rest[size:]
        events += reader.finish()
        assert [event.strip().replace(b"\n ", b"\n") for event in events] == expected
