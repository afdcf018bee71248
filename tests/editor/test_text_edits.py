"""Edits for an editor: whole lines, as few as can be, in its own units."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.buffers import applied
from treadle.server.editor.documents import split
from treadle.server.editor.text_edits import edits_between

ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def edits(old: str, new: str, encoding: str = "utf-16") -> list[dict[str, Any]]:
    """Return edits as they go over the wire."""
    return [
        {
            "range": {
                "start": {"line": edit.range.start.line, "character": edit.range.start.character},
                "end": {"line": edit.range.end.line, "character": edit.range.end.character},
            },
            "newText": edit.new_text,
        }
        for edit in edits_between(split(old), new, encoding)
    ]


def spans(old: str, new: str, encoding: str = "utf-16") -> list[tuple[tuple[int, int], ...]]:
    return [
        tuple((end["line"], end["character"]) for end in edit["range"].values())
        for edit in edits(old, new, encoding)
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", [((1, 0), (2, 0))]),
        ("a\nb\nc\nd\n", "A\nb\nc\nD\n", [((0, 0), (1, 0)), ((3, 0), (4, 0))]),
        ("a\n", "a\nb\n", [((1, 0), (1, 0))]),
        ("", "a\n", [((0, 0), (0, 0))]),
        ("a\n", "", [((0, 0), (1, 0))]),
        ("a\nb\n", "a\nb\n", []),
    ],
)
def test_only_lines_that_differ_are_touched(
    old: str, new: str, expected: list[tuple[tuple[int, int], ...]]
) -> None:
    assert spans(old, new) == expected


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_the_end_of_a_last_line_is_counted_in_the_editor_s_units(encoding: str, units: int) -> None:
    assert spans("a\n😀", "a\nb", encoding) == [((1, 0), (1, units))]


def test_a_text_that_differs_over_very_many_lines_is_one_edit() -> None:
    old = "".join(f"{number}\n" for number in range(3000))
    assert spans(f"first\n{old}last\n", "first\n" + old.replace("\n", "x\n") + "last\n") == [
        ((1, 0), (3001, 0))
    ]


TEXT = st.text(st.sampled_from("ab\n\n\r\né😀\u2028\x0c"), max_size=20)


@settings(max_examples=400, deadline=None)
@given(encoding=st.sampled_from(sorted(ENCODINGS)), old=TEXT, new=TEXT)
def test_the_edits_make_one_text_of_the_other(encoding: str, old: str, new: str) -> None:
    assert applied(old, edits(old, new, encoding), ENCODINGS[encoding]) == new
