"""How pairs become paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.errors import InvalidParams
from treadle.thread.paths import beside, decode_name, encode_name, thread_path, validate_name

deterministic = settings(derandomize=True, database=None, deadline=None)
# Letters that fold together, device names, separators, and whatever else Unicode has.
names = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="aAbBkK./\\+-_ :ßſıİé", max_size=12),
    st.sampled_from(["con", "CON", "com1", "lpt9", "aux.txt", ".", "..", "~", "nul ", ""]),
)


def test_a_pair_lies_in_a_folder_of_its_agent(tmp_path: Path) -> None:
    path = thread_path(tmp_path, "inbox", "Mac's mail/2")

    assert path == tmp_path / "threads" / "inbox" / "+4dac+27s+20mail+2f2.jsonl"
    assert beside(path, ".lock").name == "+4dac+27s+20mail+2f2.lock"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("con", "+63on"),
        ("com0", "+63om0"),
        ("lpt9", "+6cpt9"),
        ("console", "console"),
        ("com10", "com10"),
        ("..", "+2e+2e"),
        ("é", "+c3+a9"),
        ("", "+"),
    ],
)
def test_a_name_is_spelled_so_that_every_file_system_takes_it(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded
    assert decode_name(encoded) == name


@deterministic
@given(names)
def test_a_short_name_can_be_read_back_from_its_file(name: str) -> None:
    encoded = encode_name(name)

    assert decode_name(encoded) == (None if "++" in encoded else name)


@deterministic
@given(names, names)
def test_distinct_names_stay_distinct_whatever_a_file_system_does_to_case(a: str, b: str) -> None:
    assert (encode_name(a).casefold() == encode_name(b).casefold()) == (a == b)


@deterministic
@given(names, names)
def test_a_path_never_leaves_the_folder_of_threads(agent: str, instance: str) -> None:
    data = Path(os.sep, "data")
    path = thread_path(data, agent, instance)

    assert Path(os.path.normpath(path)) == path
    assert path.parent.parent == data / "threads"
    assert all(len(part) <= 120 + len(".jsonl") for part in path.parts)


@deterministic
@given(st.text(alphabet="aé", min_size=100, max_size=200), st.text(min_size=1, max_size=3))
def test_long_names_are_told_apart_by_what_was_cut_off(name: str, tail: str) -> None:
    long, longer = encode_name("x" * 100 + name), encode_name("x" * 100 + name + tail)

    assert long != longer
    assert max(len(long), len(longer)) <= 120
    assert (decode_name(long), decode_name(longer)) == (None, None)


def test_a_long_name_is_cut_between_characters_of_its_spelling() -> None:
    head, _, digits = encode_name("é" * 100).partition("++")

    assert decode_name(head.removesuffix("+c3")) == "é" * 14
    assert len(digits) == 32


@pytest.mark.parametrize(
    "encoded", ["Con", "con", "a.b", "+4", "+4G", "+61", "+ff", "a++00", "a\n"]
)
def test_a_file_name_that_is_none_of_ours_stands_for_no_name(encoded: str) -> None:
    assert decode_name(encoded) is None


@pytest.mark.parametrize("name", ["", "a" * 201, "a\nb", "a\x00", "\x7f", "a\ud800"])
def test_a_name_that_cannot_be_shown_is_refused_and_the_field_named(name: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        validate_name(name, "instance")

    assert caught.value.data == {"path": "instance"}


@pytest.mark.parametrize("name", ["a", "a" * 200, "Mac's mail/2", "日本", "a.b"])
def test_any_name_a_person_can_read_is_taken(name: str) -> None:
    validate_name(name, "agent")
