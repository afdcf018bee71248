"""What a model is sent is valid, whatever a thread holds."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.thread.message import Message, ToolCall
from treadle.thread.repair import (
    EMPTY_RESULT_TEXT,
    interrupted_result,
    unanswered_calls,
    view,
)

deterministic = settings(derandomize=True, database=None, deadline=None, max_examples=300)


def user(text: str = "go") -> Message:
    return Message("user", text)


def says(text: str = "", *ids: str) -> Message:
    return Message("assistant", text, [ToolCall(one, "read") for one in ids])


def result(call_id: str, text: str = "ok") -> Message:
    return Message("tool", text, tool_call_id=call_id)


def lost(call_id: str) -> Message:
    return interrupted_result(ToolCall(call_id, "read"))


def test_a_call_without_a_result_gets_one_that_warns_of_its_effects() -> None:
    filled = view([user(), says("", "a", "b"), result("b"), user("and?")])

    assert filled == [user(), says("", "a", "b"), lost("a"), result("b"), user("and?")]
    assert filled[2].is_error
    assert "may have had effects" in filled[2].text


def test_results_stand_in_the_order_of_the_calls_each_once() -> None:
    history = [says("", "a", "b"), result("b"), result("a"), result("a", "again")]

    assert view(history) == [says("", "a", "b"), result("a"), result("b")]


def test_a_result_that_landed_after_a_persons_words_still_answers_its_call() -> None:
    history = [says("", "a"), user("hurry"), result("a")]

    assert view(history) == [says("", "a"), result("a"), user("hurry")]


def test_a_result_behind_the_next_answer_belongs_to_nobody() -> None:
    history = [says("", "a"), user(), says("hm"), result("a"), result("b")]

    assert view(history) == [says("", "a"), lost("a"), user(), says("hm")]


def test_ids_that_come_again_are_told_apart_together_with_their_results() -> None:
    history = [says("", "a", "a"), result("a", "1"), result("a", "2"), says("", "a", "a-2")]

    assert view([*history, result("a-2", "4"), result("a", "3")]) == [
        says("", "a", "a-2"),
        result("a", "1"),
        result("a-2", "2"),
        says("", "a-3", "a-2-2"),
        result("a-3", "3"),
        result("a-2-2", "4"),
    ]


def test_a_call_without_an_id_gets_one() -> None:
    assert view([says("", ""), result("")]) == [says("", "call-2"), result("call-2")]


def test_messages_that_say_nothing_and_system_messages_are_left_out() -> None:
    blank = Message("user", [{"type": "text", "text": " "}])
    image = Message("user", [{"type": "image", "ref": "sha256:1"}])
    history = [
        Message("system", "be kind"),
        user(),
        says(" \n"),
        user(""),
        blank,
        image,
        says("hi"),
    ]

    assert view(history) == [user(), image, says("hi")]


def test_a_result_that_says_nothing_says_so() -> None:
    assert view([says("", "a"), result("a", "")])[1].text == EMPTY_RESULT_TEXT


def test_the_calls_that_wait_are_those_of_the_last_answer_alone() -> None:
    asked = says("", "a", "b", "b")

    assert unanswered_calls([asked, result("b")]) == [asked.tool_calls[0], asked.tool_calls[2]]
    assert unanswered_calls([asked, user()]) == []
    assert unanswered_calls([result("a")]) == []


ids = st.sampled_from(["", "a", "b", "a-2", "c" * 50])
texts = st.sampled_from(["", " ", "x", "y"])
contents = texts | st.lists(
    st.sampled_from([{"type": "text", "text": ""}, {"type": "text"}, {"type": "image"}]), max_size=2
)
anything = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant", "tool", "tool"]),
        content=contents,
        tool_calls=st.lists(st.builds(ToolCall, ids, st.just("read")), max_size=3),
        tool_call_id=ids,
    ),
    max_size=14,
)
steps = st.lists(st.integers(0, 3), max_size=6)


@deterministic
@given(anything)
def test_whatever_a_thread_holds_its_view_is_valid(history: list[Message]) -> None:
    check_valid(view(history))


@deterministic
@given(anything)
def test_a_view_of_a_view_is_the_view(history: list[Message]) -> None:
    once = view(history)

    assert view(once) == once


@deterministic
@given(anything)
def test_what_is_kept_keeps_its_order_and_nothing_that_speaks_is_lost(
    history: list[Message],
) -> None:
    spoken = [m for m in history if m.role in ("user", "assistant")]
    kept = [(m.role, m.content) for m in view(history) if m.role != "tool"]

    assert kept == [(m.role, m.content) for m in spoken if m.content in kept_contents(m)]


@deterministic
@given(anything, anything)
def test_the_start_of_a_view_does_not_depend_on_what_comes_after_a_finished_answer(
    before: list[Message], after: list[Message]
) -> None:
    start = view([*before, says("done")])

    assert view([*before, says("done"), *after])[: len(start)] == start


@deterministic
@given(steps)
def test_a_valid_history_is_unchanged(call_counts: list[int]) -> None:
    history = valid_history(call_counts)

    assert view(history) == history


def kept_contents(message: Message) -> list[object]:
    """Its content, if the message may stay."""
    if isinstance(message.content, str):
        speaks = bool(message.content.strip())
    else:
        speaks = any(block["type"] == "image" for block in message.content)
    calls = message.role == "assistant" and bool(message.tool_calls)
    return [message.content] if speaks or calls else []


def valid_history(call_counts: Sequence[int]) -> list[Message]:
    history = [user()]
    for step, count in enumerate(call_counts):
        calls = [f"{step}-{index}" for index in range(count)]
        history += [says("text", *calls), *(result(call) for call in calls)]
    return history


def check_valid(messages: list[Message]) -> None:
    """The rules that providers check."""
    seen: set[str] = set()
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        assert message.role in ("user", "assistant")
        assert kept_contents(message)
        assert message.role == "assistant" or not message.tool_calls
        for call in message.tool_calls:
            answer = rest.pop(0)
            assert (answer.role, answer.tool_call_id) == ("tool", call.id)
            assert answer.content
            assert not answer.tool_calls
            assert call.id
            assert call.id not in seen
            seen.add(call.id)
