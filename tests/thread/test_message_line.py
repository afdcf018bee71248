"""A message and its line: nothing gets lost on the way to disk and back."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.thread.message import Message, ToolCall, Usage, decode_line, encode_line
from treadle.thread.records import TurnRecord, decode_record

deterministic = settings(derandomize=True, database=None, deadline=None)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)


@deterministic
@given(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "tool", "system"]),
        content=text
        | st.lists(st.fixed_dictionaries({"type": text, "x": json_values}), max_size=2),
        tool_calls=st.lists(
            st.builds(ToolCall, text, text, st.dictionaries(text, json_values, max_size=2)),
            max_size=2,
        ),
        tool_call_id=text,
        reasoning=text,
        turn=st.integers(0, 2**31),
        usage=st.none() | st.builds(Usage, st.integers(0, 2**40)),
        partial=st.booleans(),
    )
)
def test_a_line_gives_back_exactly_its_message(message: Message) -> None:
    line = encode_line(message)

    assert decode_line(line) == message
    assert b"\n" not in line
    assert line.startswith(b'{"role"')


def test_unknown_keys_of_message_call_and_usage_survive_a_round_trip() -> None:
    plain = {
        "role": "assistant",
        "tool_calls": [
            {"id": "1", "name": "read", "arguments": {"path": "a"}, "cache": {"ttl": 5}, "": 1}
        ],
        "usage": {"input_tokens": 3, "audio_tokens": 2},
        "mood": ["calm"],
        "": {"a": 1},
    }

    assert json.loads(encode_line(decode_line(json.dumps(plain).encode()))) == plain


def test_what_is_nested_deeply_and_can_be_read_can_be_written_again() -> None:
    line = b'{"role":"user","content":"hi","later":' + b"[" * 900 + b"]" * 900 + b"}"
    assert encode_line(decode_line(line)) == line


def test_text_that_is_no_text_is_made_so_when_written_and_when_read() -> None:
    clean = Message("user", "a\ufffd", extra={"k\ufffd": "\ufffd"})

    assert (
        decode_line(encode_line(Message("user", "a\ud800", extra={"k\ud801": "\udc00"}))) == clean
    )
    assert decode_line(rb'{"role":"user","content":"a\ud800","k\ud801":"\udc00"}') == clean
    assert decode_line(rb'{"role":"user","content":"\ud83d\ude00"}').text == "😀"


def test_a_turn_record_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    line = (
        b'{"turn":{"number":3,"event":"end","stop_reason":"moonrise","key":"k",'
        b'"usage":{"input_tokens":1,"audio_tokens":2}},"seal":1}'
    )

    assert decode_record(line).turn == TurnRecord(
        3, "end", stop_reason="moonrise", usage=Usage(1, extra={"audio_tokens": 2}), key="k"
    )


@pytest.mark.parametrize("line", [b'{"role":"user"', b'{"role":"\\ud800"', b"42", b'{"role":"x"}'])
def test_a_line_that_is_no_message_is_an_error_of_the_decoder(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_line(line)
