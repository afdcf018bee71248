"""What a server asks a person: which questions are put, and what the server is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from treadle.mcp.eliciting import put_to_person
from treadle.mcp.form import MAX_CHOICES, MAX_FIELDS
from treadle.mcp.remote import ElicitationAnswer, Elicited
from treadle.tools.asking import Asked, NobodyAnswers


class Person:
    """Answers each round of questions with the next of what it was given, and keeps them."""

    def __init__(self, *rounds: dict[str, str] | None) -> None:
        self.asked: list[list[Asked]] = []
        self._rounds = list(rounds)

    async def ask(self, questions: Sequence[Asked]) -> Mapping[str, str] | None:
        self.asked.append(list(questions))
        return self._rounds.pop(0)


def form(*required: str, **properties: dict[str, Any]) -> Elicited:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Elicited("Where to?", schema)


async def told(asked: Elicited, *rounds: dict[str, str] | None) -> ElicitationAnswer:
    person = Person(*rounds)
    answer = await put_to_person(person, "travel", asked)
    assert not person._rounds, "the person was not asked as often as expected"
    return answer


TRIP = form(
    "city",
    "nights",
    city={"type": "string", "title": "City", "description": "where the hotel is"},
    nights={"type": "integer", "minimum": 1, "maximum": 30},
    price={"type": "number"},
    breakfast={"type": "boolean", "default": True},
    view={"type": "string", "enum": ["s", "g"], "enumNames": ["Sea", "Garden"], "default": "g"},
)


async def test_each_field_becomes_a_question_and_the_answers_come_back_as_their_types() -> None:
    person = Person({"1": "Rome", "2": "3", "3": "99.5", "4": "no", "5": "Sea"})
    answer = await put_to_person(person, "travel", TRIP)
    assert answer == ElicitationAnswer(
        "accept", {"city": "Rome", "nights": 3, "price": 99.5, "breakfast": False, "view": "s"}
    )
    assert person.asked == [
        [
            Asked(
                "1",
                "The MCP server travel asks you, in its own words:\n"
                "> Where to?\n"
                "(What you answer goes to that server; “decline” tells it nothing.)\n"
                "> City: where the hotel is\n(text)",
            ),
            Asked("2", "> nights\n(a whole number, 1 or more, 30 at most)"),
            Asked("3", "> price\n(a number; “skip” leaves it out)"),
            Asked("4", "> breakfast\n(yes or no; “skip” for yes)", ("yes", "no")),
            Asked("5", "> view\n(one of these; “skip” for Garden)", ("Sea", "Garden")),
        ]
    ]


async def test_what_is_left_out_has_its_default_or_is_absent() -> None:
    answer = await told(TRIP, {"1": "Rome", "2": "1", "3": "skip", "4": ""})
    assert answer == ElicitationAnswer(
        "accept", {"city": "Rome", "nights": 1, "breakfast": True, "view": "g"}
    )


async def test_an_answer_that_does_not_fit_is_asked_for_once_more() -> None:
    person = Person({"1": "Rome", "2": "many"}, {"2": "4"})
    answer = await put_to_person(person, "travel", TRIP)
    assert answer.content["nights"] == 4
    hint = "a whole number, 1 or more, 30 at most"
    assert person.asked[1] == [Asked("2", f"Once more: it is {hint}.\n> nights\n({hint})")]


@pytest.mark.parametrize("second", [{"2": "31"}, {}, None, {"2": "decline"}])
async def test_what_still_does_not_fit_is_a_decline(second: dict[str, str] | None) -> None:
    first = {"1": "Rome", "2": "0"}
    assert await told(TRIP, first, second) == ElicitationAnswer("decline")


async def test_a_person_can_decline_and_dismiss() -> None:
    assert await told(TRIP, {"1": "Rome", "2": " Decline "}) == ElicitationAnswer("decline")
    assert await told(TRIP, {}) == ElicitationAnswer("cancel")


async def test_where_nobody_is_the_server_is_told_that_they_decline() -> None:
    assert await put_to_person(NobodyAnswers(), "travel", TRIP) == ElicitationAnswer("decline")


@pytest.mark.parametrize(
    ("rounds", "action"),
    [
        ([{"confirm": "yes"}], "accept"),
        ([{"confirm": "No"}], "decline"),
        ([{"confirm": "hm"}, {"confirm": "y"}], "accept"),
        ([{"confirm": "hm"}, {"confirm": "hm"}], "decline"),
        ([{}], "cancel"),
        ([None], "decline"),
    ],
)
async def test_an_object_without_properties_is_a_yes_or_a_no(
    rounds: list[dict[str, str] | None], action: Any
) -> None:
    assert await told(form(), *rounds) == ElicitationAnswer(action)


async def test_choices_are_taken_by_title_by_value_and_in_any_case() -> None:
    size = {"type": "string", "oneOf": [{"const": "l", "title": "Large"}, {"const": "s"}]}
    for word, value in (("Large", "l"), ("large", "l"), ("l", "l"), ("s", "s")):
        assert await told(form("size", size=size), {"1": word}) == ElicitationAnswer(
            "accept", {"size": value}
        )


async def test_several_choices_are_a_list_within_its_bounds() -> None:
    tags = {
        "type": "array",
        "minItems": 1,
        "maxItems": 2,
        "items": {"anyOf": [{"const": "a", "title": "A, first"}, {"const": "b", "title": "B"}]},
    }
    asked = form("tags", tags=tags)
    both = ElicitationAnswer("accept", {"tags": ["b", "a"]})
    assert await told(asked, {"1": "b, a"}) == both
    one = ElicitationAnswer("accept", {"tags": ["a"]})
    assert await told(asked, {"1": "A, first"}) == one
    plain = form(x={"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}})
    assert (await told(plain, {"1": "c,a,c"})).content == {"x": ["c", "a"]}
    assert await told(asked, {"1": ","}, {"1": "c"}) == ElicitationAnswer("decline")


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"format": "email"}, "a@b.example", "a at b"),
        ({"format": "uri"}, "https://a.example/x", "a.example"),
        ({"format": "date"}, "2026-02-28", "2026-02-30"),
        ({"format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-28"),
        ({"minLength": 2, "maxLength": 3}, "abc", "a"),
        ({"maxLength": 3}, "abc", "abcd"),
    ],
)
async def test_texts_are_checked_by_format_and_length(
    schema: dict[str, Any], good: str, bad: str
) -> None:
    asked = form("x", x={"type": "string", **schema})
    assert await told(asked, {"1": bad}, {"1": good}) == ElicitationAnswer("accept", {"x": good})


@pytest.mark.parametrize("word", ["nan", "inf", "1e999", "9" * 5000, "x"])
async def test_no_number_is_taken_that_json_cannot_hold(word: str) -> None:
    asked = form("x", x={"type": "number"})
    assert await told(asked, {"1": word}, {"1": "-2"}) == ElicitationAnswer("accept", {"x": -2.0})


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("x", {"type": "string", "format": "password"}),
        ("githubToken", {"type": "string"}),
        ("API_KEY", {"type": "string"}),
        ("x", {"type": "string", "title": "Your passphrase"}),
        ("x", {"type": "string", "description": "The password of your account"}),
    ],
)
async def test_nobody_is_asked_for_a_secret(
    name: str, schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await told(form(**{name: schema})) == ElicitationAnswer("decline")
    assert caplog.messages == [
        f"the MCP server travel asked in vain: {name!r} looks like a secret, "
        "which no server may ask a person for"
    ]


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("max_tokens", {"type": "integer"}),
        ("token", {"type": "string", "enum": ["BTC", "ETH"]}),
        ("key", {"type": "string"}),
        ("tokenizer", {"type": "string", "description": "which token is meant"}),
    ],
)
async def test_what_only_sounds_like_a_secret_is_asked(name: str, schema: dict[str, Any]) -> None:
    assert await told(form(**{name: schema}), {"1": "skip"}) == ElicitationAnswer("accept")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"x": {"type": "object"}}},
        {"properties": {"x": "y"}},
        {"properties": {"x": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"x": {"type": "string", "enum": [str(n) for n in range(MAX_CHOICES + 1)]}}},
        {"properties": {f"x{n}": {"type": "string"} for n in range(MAX_FIELDS + 1)}},
        {"properties": {}, "required": "x"},
    ],
)
async def test_what_is_no_plain_form_is_declined_unasked(schema: dict[str, Any]) -> None:
    assert await told(Elicited("?", schema)) == ElicitationAnswer("decline")


async def test_a_servers_words_are_marked_bounded_and_obeyed_by_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "\x1b[2J\nThe MCP server bank asks you:" + "\nx" * 100
    schema = {"properties": {"a\nb": {"type": "string", "title": "c\nd" * 1000}}}
    person = Person({"1": "z"})
    await put_to_person(person, "tra\nvel", Elicited(message, schema))
    text = person.asked[0][0].text
    lines = text.split("\n")
    assert lines[0] == "The MCP server tra vel asks you, in its own words:"
    assert lines[1:3] == ["> ␛[2J", "> The MCP server bank asks you:"]
    assert all(each.startswith((">", "(")) for each in lines[1:])
    assert "\x1b" not in text
    assert len(lines) < 30
    assert len(text) < 3000


async def test_a_secret_in_a_servers_words_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.secrets import hold

    monkeypatch.setenv("ELICIT_KEY", "hunter2hunter2")
    hold("ELICIT_KEY")
    person = Person({"confirm": "no"})
    await put_to_person(person, "x", Elicited("Send hunter2hunter2?", {}))
    assert "> Send [secret ELICIT_KEY]?" in person.asked[0][0].text
    person = Person({"1": "skip"})
    title = "x" * 290 + " hunter2hunter2"
    await put_to_person(person, "x", form(a={"type": "string", "title": title}))
    assert "hunter" not in person.asked[0][0].text


async def test_an_answer_may_be_a_word_that_we_have_a_meaning_for() -> None:
    choice = {"type": "string", "enum": ["decline", "skip"]}
    asked = form("x", "y", x=choice, y={"type": "string"})
    assert await told(asked, {"1": "decline", "2": "skip"}) == ElicitationAnswer(
        "accept", {"x": "decline", "y": "skip"}
    )


async def test_an_answer_that_is_a_file_does_not_fit() -> None:
    asked = form("x", x={"type": "string"})
    assert await told(asked, {"1": "x" * 5001}, {"1": "x"}) == ElicitationAnswer(
        "accept", {"x": "x"}
    )
