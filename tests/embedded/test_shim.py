"""Tools for a model that knows none: what it is told, what it may say, how that is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.completion import ToolSpec
from treadle.models.embedded.hints import MAX_PATHS, callable_tools, named_paths
from treadle.models.embedded.shim import (
    ReplyDecoder,
    Step,
    flatten,
    offered,
    parse_step,
    step_schema,
    tool_prompt,
)
from treadle.thread.message import Message, ToolCall, clean


def spec(name: str, *required: str, **properties: Any) -> ToolSpec:
    shapes = {argument: {"type": "string", "description": "…"} for argument in required}
    parameters = {"type": "object", "properties": shapes | properties, "required": list(required)}
    return ToolSpec(name, f"Does what {name} does.\nIn detail.", parameters)


READ = spec("read", "path", offset={"type": "integer", "minimum": 1})
GLOB = spec("glob", "pattern")
SHELL = spec("shell", "command")
CHAT = {
    "type": "object",
    "properties": {"tool": {"const": "chat"}, "reply": {"type": "string"}},
    "required": ["tool", "reply"],
    "additionalProperties": False,
}


def call(name: str, argument: str, shape: Any) -> dict[str, Any]:
    arguments = {
        "type": "object",
        "properties": {argument: shape},
        "required": [argument],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"tool": {"const": name}, "arguments": arguments},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def told(*texts: str) -> list[Message]:
    return [Message("user", text) for text in texts]


def test_at_most_five_tools_are_offered_always_in_the_same_order() -> None:
    tools = [spec(name) for name in ("shell", "fetch", "grep", "todo", "read", "edit", "glob")]

    assert [tool.name for tool in offered(tools)] == ["read", "glob", "grep", "edit", "shell"]


@pytest.mark.parametrize(
    "text",
    [
        "My name is Mac.",
        "Hi, I'm Priya",
        "My name is 美咲.",
        "I am J.R. and my pronouns are he/him.",
        "Write to mac@example.org or see https://example.org/a.html",
        "What is 3.14 times 2?",
        "What is my name?",
    ],
)
def test_talk_can_never_end_in_a_tool_call(text: str) -> None:
    assert step_schema(told(text), offered([READ, GLOB, SHELL])) == {"anyOf": [CHAT]}


def test_a_named_file_may_be_read_and_no_other() -> None:
    schema = step_schema(told("What do notes.txt and `Makefile` say?"), [READ, GLOB])

    assert schema == {"anyOf": [call("read", "path", {"enum": ["notes.txt", "Makefile"]}), CHAT]}


def test_a_path_that_was_named_before_may_be_read_later_when_it_is_asked_for() -> None:
    schema = step_schema(told("Read src/main.py", "Show that file again"), [READ])

    assert schema == {"anyOf": [call("read", "path", {"enum": ["src/main.py"]}), CHAT]}
    assert step_schema(told("Read src/main.py", "My name is Mac."), [READ]) == {"anyOf": [CHAT]}


def test_after_a_result_there_is_an_answer_not_another_call() -> None:
    conversation = [*told("Read a.txt again"), Message("tool", "b.txt", tool_call_id="1")]

    assert step_schema(conversation, [READ]) == {"anyOf": [CHAT]}


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("Which python files are here?", ["glob"]),
        ("List *.md", ["glob"]),
        ("Search for TODO", ["grep"]),
        ("Run the tests", ["shell"]),
        ("Replace a with b in main.py", ["read", "edit"]),
    ],
)
def test_words_call_for_the_tool_they_name(text: str, tools: list[str]) -> None:
    assert callable_tools(told(text), ["read", "glob", "grep", "edit", "shell"]) == tools


def test_a_tool_that_no_word_calls_for_is_never_called() -> None:
    text = "Put notes.txt on the todo list, and undo the last change"
    assert callable_tools(told(text), ["todo", "undo", "web__get"]) == []


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("(see 'src/main.py'), README.md.", ["src/main.py", "README.md"]),
        ("/etc/hosts ~/mail ./run ../up.txt C:\\x\\y.txt", None),
        ("`a file` `Makefile` .env archive.tar.gz", ["Makefile", ".env", "archive.tar.gz"]),
        ("and/or e.g. 1.2.3 U.S.A. Mac. ...", []),
    ],
)
def test_paths_are_told_from_words(text: str, paths: list[str] | None) -> None:
    assert named_paths(told(text)) == (text.split() if paths is None else paths)


def test_a_long_listing_gives_a_bounded_choice() -> None:
    listing = Message("tool", "\n".join(f"file{number:03}.txt" for number in range(1000)))

    assert named_paths([listing]) == [f"file{number:03}.txt" for number in range(MAX_PATHS)]


def test_a_conversation_becomes_plain_messages_in_the_words_of_a_step() -> None:
    conversation = [
        Message("system", "Be brief."),
        Message("user", "Compare a.txt and b.txt"),
        Message(
            "assistant",
            "I look.",
            tool_calls=[ToolCall("1", "read", {"path": "a.txt"}), ToolCall("2", "web__get", {})],
        ),
        Message("tool", "é", tool_call_id="1"),
        Message("tool", "No.", tool_call_id="2", is_error=True),
        Message("assistant", "They differ."),
    ]

    def result(name: str, text: str) -> dict[str, str]:
        said = f"Result of {name}: {text}\nNow answer my question with that result."
        return {"role": "user", "content": said}

    assert flatten(conversation, [READ]) == [
        {"role": "system", "content": "Be brief.\n\n" + tool_prompt([READ])},
        {"role": "user", "content": "Compare a.txt and b.txt"},
        {"role": "assistant", "content": '{"tool": "chat", "reply": "I look."}'},
        {"role": "assistant", "content": '{"tool": "read", "arguments": {"path": "a.txt"}}'},
        result("read", "é"),
        {"role": "assistant", "content": '{"tool": "web__get", "arguments": {}}'},
        result("web__get", "No."),
        {"role": "assistant", "content": '{"tool": "chat", "reply": "They differ."}'},
    ]


def test_without_tools_texts_are_sent_as_they_are() -> None:
    conversation = [Message("system", "Be brief."), *told("Hi"), Message("assistant", "Hello.")]

    assert flatten(conversation, []) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
    ]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('{"tool": "chat", "reply": "Hi \\ud83d\\ude00"}', Step(reply="Hi 😀")),
        (
            '{"tool": "read", "arguments": {"path": "a"}}',
            Step(tool="read", arguments={"path": "a"}),
        ),
        ('{"tool": "chat", "reply": "cut sh', Step(reply="cut sh")),
        ('{"tool": "read", "arguments": {"pa', Step()),
        ("no JSON at all", Step(reply="no JSON at all")),
        ("[1]", Step()),
        ('{"tool": "chat", "reply": "\\ud800"}', Step(reply="\N{REPLACEMENT CHARACTER}")),
    ],
)
def test_a_step_is_read_and_half_a_call_is_none(text: str, step: Step) -> None:
    assert parse_step(text) == step


TRICKY = [
    "",
    "plain",
    'quote " backslash \\ slash / \b\f\n\r\t',
    "é 美咲 \U0001f600 \U0001f600\U0001f601",
    "\ud83d lone \ude00 \ud83d\ud83d\ude00 \ud83d\\u",
    "ends with \ud83d",
    'ends like one"}',
]


def escapings(reply: str) -> list[str]:
    """Spell a reply as JSON in the ways there are; UTF-8 carries no lone surrogates."""
    every = "".join(
        f"\\u{unit:04X}"
        for character in reply
        for unit in memoryview(character.encode("utf-16-le", "surrogatepass")).cast("H")
    )
    spelt = [json.dumps(reply), json.dumps(clean(reply), ensure_ascii=False), f'"{every}"']
    return [f'{{"tool": "chat", "reply": {text}}}' for text in spelt]


@pytest.mark.parametrize("reply", TRICKY)
def test_a_reply_split_anywhere_streams_as_json_would_read_it(reply: str) -> None:
    for text in escapings(reply):
        whole = clean(json.loads(text)["reply"])
        for first in range(len(text) + 1):
            for second in range(first, len(text) + 1):
                decoder = ReplyDecoder()
                pieces = (text[:first], text[first:second], text[second:])
                assert "".join(decoder.feed(piece) for piece in pieces) == whole


@given(st.text(st.characters(), max_size=40), st.sampled_from(range(3)), st.integers(1, 7))
def test_any_reply_in_pieces_of_any_size_streams_as_json_would_read_it(
    reply: str, spelling: int, size: int
) -> None:
    text = escapings(reply)[spelling]
    decoder = ReplyDecoder()

    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    assert "".join(map(decoder.feed, pieces)) == clean(json.loads(text)["reply"])


def test_nothing_of_a_call_streams_even_if_an_argument_is_called_reply() -> None:
    decoder = ReplyDecoder()

    assert decoder.feed('{"tool": "read", "arguments": {"reply": "secret"}}') == ""
