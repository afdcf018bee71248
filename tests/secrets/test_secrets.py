"""Secrets: what they are, in which forms they are recognised, and texts that come in pieces."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import secrets
from treadle.secrets import Secrets, SecretStream, hold, hold_value, known, too_short

# Whatever an encoding changes, and what it does not.
VALUE = 'pass "word"\\ /+é?\t\x07€🔑'
SHOWN = "[secret NAME]"


@pytest.fixture(autouse=True)
def _nothing_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_names", ("OPENAI_API_KEY",))
    monkeypatch.setattr(secrets, "_values", ())
    yield
    secrets._compiled.cache_clear()


def one(value: str) -> Secrets:
    return Secrets((("NAME", value),))


def test_the_value_of_a_held_variable_is_shown_as_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", " token-0123 \n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456")
    assert known().redact("sk-0123456 token-0123") == "[secret OPENAI_API_KEY] token-0123"
    hold("MY_TOKEN", "UNSET")
    assert known().redact("x=token-0123;") == "x=[secret MY_TOKEN];"
    monkeypatch.setenv("MY_TOKEN", "token-4567")
    assert known().redact("token-0123 token-4567") == "token-0123 [secret MY_TOKEN]"


def test_a_variable_may_be_secret_to_one_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_KEY", "/home/me/.ssh/id")
    assert known("SSH_KEY").redact("/home/me/.ssh/id") == "[secret SSH_KEY]"
    assert known().redact("/home/me/.ssh/id") == "/home/me/.ssh/id"


def test_a_value_of_no_variable_is_shown_as_what_people_call_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hold_value("wiki's token", "abcdefgh")
    hold_value("too short", "abc")
    assert known().redact("abcdefgh abc") == "[secret wiki's token] abc"
    monkeypatch.setenv("WIKI_TOKEN", "abcdefgh")
    hold("WIKI_TOKEN")
    assert known().redact("abcdefgh") == "[secret WIKI_TOKEN]"


def test_a_short_value_hides_nothing_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", "1234567")
    monkeypatch.setenv("LONG", "12345678")
    monkeypatch.delenv("UNSET", raising=False)
    hold("SHORT", "LONG")
    assert known().redact("1234567 12345678") == "1234567 [secret LONG]"
    assert too_short(("SHORT", "LONG", "UNSET")) == ["SHORT"]


def test_without_secrets_a_text_is_the_very_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = "nothing to hide"
    assert not known()
    assert known().redact(text) is text
    assert SecretStream(known()).take(text) is text


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        msgspec.json.encode(VALUE).decode(),
        repr(VALUE),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote(VALUE, safe="!'()*"),
        quote_plus(VALUE),
        *(base64.b64encode(b"user:"[:n] + VALUE.encode()).decode() for n in range(6)),
        base64.urlsafe_b64encode(b"x" + VALUE.encode() + b"tail").decode(),
    ],
)
def test_every_form_of_a_secret_is_recognised(form: str) -> None:
    found = one(VALUE)
    assert SHOWN in found.redact(f"before {form} after")
    assert found.redact(found.redact(form)) == found.redact(form)
    for whole in (VALUE, json.dumps(VALUE)[1:-1], quote(VALUE)):
        assert whole not in found.redact(form)


def test_base64_leaves_at_most_the_letters_that_hold_other_bytes_too() -> None:
    value = "0123456789abcdef"
    for before in range(3):
        encoded = base64.b64encode(b"u" * before + value.encode()).decode()
        shown = one(value).redact(encoded)
        assert len(shown.replace(SHOWN, "").rstrip("=")) <= 4


def test_each_long_line_of_a_secret_is_one_by_itself() -> None:
    found = one("-----BEGIN KEY-----\nabcdefghijkl\nmn\n-----END KEY-----")
    assert found.redact("1\tabcdefghijkl\n2\tmn") == f"1\t{SHOWN}\n2\tmn"
    assert found.redact("-----BEGIN KEY-----\nabcdefghijkl\nmn\n-----END KEY-----.") == f"{SHOWN}."


def test_of_two_secrets_that_begin_alike_the_longer_one_is_taken() -> None:
    found = Secrets((("A", "abcdefgh"), ("B", "abcdefghij"), ("C", "abcdefgh")))
    assert found.redact("abcdefghij abcdefghi") == "[secret B] [secret A]i"


def test_every_text_of_a_value_is_redacted_at_any_depth() -> None:
    value = {"a": ["x", {"b-12345678": ("12345678", 3, None)}], "c": True}
    assert one("12345678").redact_all(value) == {
        "a": ["x", {f"b-{SHOWN}": [SHOWN, 3, None]}],
        "c": True,
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20))
def test_a_secret_is_found_in_the_json_that_holds_it(value: str) -> None:
    found = one(value)
    assert found.may_be_in(msgspec.json.encode({"a": [f"x{value}y"]}))
    assert not found.may_be_in(b'{"a":["nothing"]}') or value in "nothing"


def test_pieces_are_told_at_once_unless_they_may_become_a_secret() -> None:
    stream = SecretStream(one("sk-0123456789"))
    assert [stream.take(piece) for piece in ("Hello ", "is", "", " sk-01234", "567", "89!")] == [
        "Hello ",
        "i",
        "",
        "s ",
        "",
        f"{SHOWN}!",
    ]
    assert stream.rest() == ""


def test_what_was_held_back_comes_out_once_it_can_be_no_secret_or_the_text_is_over() -> None:
    stream = SecretStream(one("sk-0123456789"))
    assert [stream.take("sk-012"), stream.take("x"), stream.take("sk"), stream.rest()] == [
        "",
        "sk-012x",
        "",
        "sk",
    ]
    assert stream.rest() == ""


# Few letters and secrets that overlap each other: as many ways to be wrong as there are.
_LETTERS = st.text("ab", max_size=30)
_SECRETS = st.lists(st.text("ab", min_size=8, max_size=11), min_size=1, max_size=4)


@given(_SECRETS, st.lists(_LETTERS, max_size=12), st.data())
def test_a_text_in_pieces_comes_out_as_the_whole_text_would(
    values: list[str], pieces: list[str], data: st.DataObject
) -> None:
    spliced = [piece + data.draw(st.sampled_from(["", *values])) + piece[::-1] for piece in pieces]
    whole = "".join(spliced)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    found = Secrets(tuple((f"N{number}", value) for number, value in enumerate(values)))
    stream = SecretStream(found)
    told = [
        stream.take(whole[start:end])
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
    ]
    assert "".join((*told, stream.rest())) == found.redact(whole)


def test_a_secret_that_comes_letter_by_letter_never_gets_out() -> None:
    value = "".join(random.Random(4).choices("sk-0123456789abcdef", k=60))
    stream = SecretStream(one(value))
    told = [stream.take(letter) for letter in f"The key is {value}, keep it."]
    assert "".join((*told, stream.rest())) == f"The key is {SHOWN}, keep it."
    assert not any(value.startswith(piece) for piece in told if len(piece) > 1)
