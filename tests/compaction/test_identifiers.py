"""What a person named comes through a summary letter by letter, also where a model loses it."""

from __future__ import annotations

from treadle.compaction.identifiers import identifiers, lost
from treadle.thread.message import Message


def test_names_ids_hashes_addresses_and_numbers_are_known() -> None:
    text = (
        "See https://example.org/a?b=1, file src/app/main.py and C:\\Temp\\x.log, "
        "commit 9f3ab21 of PROJ-1234, for ann@example.org; version 2.14.1, port 8080. "
        "Set MAX_SIZE in `the odd name` of notes.md, please, today!"
    )
    assert identifiers(text) == [
        "the odd name",
        "https://example.org/a?b=1",
        "src/app/main.py",
        "C:\\Temp\\x.log",
        "9f3ab21",
        "PROJ-1234",
        "ann@example.org",
        "2.14.1",
        "8080",
        "MAX_SIZE",
        "notes.md",
    ]


def test_plain_words_are_none() -> None:
    assert identifiers("Please make it 3 times as fast, e.g. with a cache. Don't hurry.") == []


def said(*texts: str) -> list[Message]:
    return [Message("user", text) for text in texts]


def test_what_a_summary_lost_comes_back_with_what_stood_around_it() -> None:
    messages = said("The code of the vault is 48213.\nBye.", "Use build_7, not build_8.")
    found = lost(messages, ["- PROJ-77: the ticket"], "We use build_7 now, 482130 times.", 1_000)
    assert found == [
        "- PROJ-77: the ticket",
        "- The code of the vault is 48213.",
        "- Use build_7, not build_8.",
    ]


def test_what_a_summary_holds_is_not_said_again() -> None:
    assert lost(said("Use build_7."), ["- PROJ-77"], "build_7, for PROJ-77", 1_000) == []


def test_of_what_is_too_much_the_first_and_the_last_ones_stay() -> None:
    messages = said(*(f"Number {n} is {n}{n}{n}{n}." for n in range(10)))
    found = lost(messages, [], "", 100)
    assert found == [f"- Number {n} is {n}{n}{n}{n}." for n in (0, 1, 2, 8, 9)]


def test_what_a_person_pasted_is_left_to_the_model() -> None:
    pasted = "\n".join(f"line_{n}" for n in range(500))
    assert lost(said(pasted), [], "", 1_000) == []
    listed = lost(said(" ".join(f"id_{n}," for n in range(100))), [], "", 100_000)
    assert len(listed) < 13


def test_half_an_identifier_is_never_shown() -> None:
    text = " ".join(f"item_{n:05}" for n in range(40))
    for line in lost(said(text), [], "", 10_000):
        assert all(word in text.split() for word in line.removeprefix("- ").split()), line


def test_where_little_is_said_a_name_counts_as_well() -> None:
    assert identifiers("My name is Mac. I live in Oslo.") == ["Mac", "Oslo"]
    assert identifiers("It is about Mac." + " And so on." * 20) == []
    assert lost(said("My name is Mac."), [], "Nobody was named.", 100) == ["- My name is Mac."]
