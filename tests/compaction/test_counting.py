"""How large a conversation is said to be: the reference numbers of the design."""

from __future__ import annotations

from hypothesis import given

from compaction.any_conversation import talks
from treadle.compaction.counting import Size, line_of, size_of, tokens_of, total
from treadle.thread.message import Message, ToolCall


def reference(result: str = "x" * 8000) -> list[Message]:
    """The design's reference conversation: three steps with large results."""
    messages = [Message("system", "instructions"), Message("user", "go")]
    for number in (1, 2, 3):
        call = ToolCall(f"tc{number}", "shell", {"command": "ls"})
        messages.append(Message("assistant", tool_calls=[call]))
        messages.append(Message("tool", result, tool_call_id=call.id))
    return messages


def test_the_reference_numbers_are_met() -> None:
    assert tokens_of([Message("user", "x" * 40)]) == 15
    assert tokens_of([Message("user", "x" * 4000)] * 4) == 4022
    assert tokens_of(reference()) == 6088
    before = reference()
    before[3] = Message("tool", "p" * 95, tool_call_id="tc1")
    assert tokens_of(before) == 4111


@given(talks())
def test_a_size_is_that_of_the_lines_and_sizes_add_up(messages: list[Message]) -> None:
    lines = [line_of(message) for message in messages]
    size = size_of(messages)
    assert size.characters == sum(map(len, lines))
    assert size == total([size_of((message,)) for message in messages])
    assert Size(size.characters, size.messages).tokens == (
        len("\n".join(lines)) // 4 + 4 * len(messages)
    )
