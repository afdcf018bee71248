"""What servers may be called, and what their tools are called here."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.mcp.naming import (
    NAME_CHARACTERS,
    is_server_name,
    server_name_like,
    server_of_tool,
    tool_names,
)

# What every provider takes.
PROVIDERS = re.compile(r"[A-Za-z0-9_-]{1,64}")

# Names that are alike once their odd characters are gone come up often among these.
NAMES = st.one_of(st.text("ab._- /é", max_size=4), st.text(max_size=90))


def test_a_tool_is_called_after_its_server_and_itself() -> None:
    names = tool_names("git", ["status", "log.all", "öffnen"], ())
    assert names == {"status": "git__status", "log.all": "git__log_all", "öffnen": "git___ffnen"}


def test_tools_that_would_be_called_alike_are_told_apart_and_neither_has_the_plain_name() -> None:
    assert tool_names("s", ["a.b", "a_b", "c"], ()) == {
        "a.b": "s__a_b_f7700fde",
        "a_b": "s__a_b_dc3ee7f7",
        "c": "s__c",
    }


def test_no_tool_takes_the_name_of_another_servers() -> None:
    taken = tool_names("a", ["b__c"], ())
    names = tool_names("a__b", ["c"], taken.values())
    assert taken == {"b__c": "a__b__c"}
    assert names["c"].startswith("a__b__c_")


def test_a_name_that_is_too_long_is_cut_and_still_its_own() -> None:
    first, second = tool_names("s", ["x" * 90 + "1", "x" * 90 + "2"], ()).values()
    assert first != second
    assert {first[:55], second[:55]} == {"s__" + "x" * 52}
    assert len(first) == len(second) == NAME_CHARACTERS


@given(st.text(min_size=1, max_size=80), st.lists(NAMES, max_size=8), st.lists(NAMES), st.randoms())
def test_names_are_distinct_valid_and_the_same_in_any_order(
    server: str, remote: list[str], others: list[str], random: Random
) -> None:
    taken = {f"{server}__{other}" for other in others}
    names = tool_names(server, remote, taken)
    assert list(names) == list(dict.fromkeys(remote))
    assert len({*names.values()}) == len(names)
    assert not taken & {*names.values()}
    assert all(PROVIDERS.fullmatch(name) for name in names.values())
    shuffled = [*remote]
    random.shuffle(shuffled)
    assert tool_names(server, shuffled, taken) == names
    assert tool_names(server, remote, taken | {*names.values()}).keys() == names.keys()


@pytest.mark.parametrize(
    ("tool", "server"),
    [
        ("wiki__read", "wiki"),
        ("wiki___read", "wiki"),
        ("wiki__read__all", "wiki"),
        ("_w-1__x", "_w-1"),
        ("__x", ""),
        ("wiki__", ""),
        ("wiki_read", ""),
        ("my wiki__x", ""),
    ],
)
def test_what_stands_before_the_first_two_underscores_is_the_server(tool: str, server: str) -> None:
    assert server_of_tool(tool) == server


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("my wiki", "my-wiki"),
        ("io.github.me/wiki__x", "io-github-me-wiki-x"),
        ("Ünï", "n"),
        ("a_", "a"),
        ("a" * 31 + " b", "a" * 31),
        ("...", ""),
    ],
)
def test_any_name_becomes_one_that_a_server_may_have_or_none(text: str, name: str) -> None:
    assert server_name_like(text) == name
    assert not name or is_server_name(name)
