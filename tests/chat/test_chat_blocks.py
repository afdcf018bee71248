"""Where a Markdown text is cut while it is still being written."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.chat.blocks import BlockSplitter

LINES = st.sampled_from(
    ["", " ", "a", "  b", "\t", "```", "```py", "````", "~~~", "  ```", "- x", "1. y", "# h", "\r"]
)
TEXTS = st.one_of(st.lists(LINES).map("\n".join), st.text())


def split(text: str, *, size: int = 0) -> tuple[list[str], str]:
    """Feed a text in pieces of `size`, or whole; return the blocks and the rest."""
    splitter = BlockSplitter()
    blocks = []
    for start in range(0, len(text), size or max(len(text), 1)):
        blocks += splitter.feed(text[start : start + (size or len(text))])
    return blocks, splitter.finish()


@given(TEXTS, st.integers(1, 7))
def test_blocks_and_rest_joined_are_the_text_however_it_came(text: str, size: int) -> None:
    blocks, rest = split(text, size=size)
    assert "".join(blocks) + rest == text
    assert (blocks, rest) == split(text)


@given(TEXTS)
def test_a_block_is_never_cut_inside_a_fence_nor_before_an_indented_line(text: str) -> None:
    blocks, rest = split(text)
    for before, after in pairwise([*blocks, rest]):
        assert before.strip() and before.endswith("\n")
        assert not before.rstrip("\n").endswith("\n") or before.splitlines()[-1].strip() == ""
        assert after and not after[0].isspace()
        splitter = BlockSplitter()
        splitter.feed(before)
        assert splitter.open_fence == ""


def test_a_fence_is_one_block_with_its_blank_lines_and_knows_its_opening() -> None:
    splitter = BlockSplitter()
    assert splitter.feed("Text.\n\n````py\na\n\n```\n\nb\n") == ["Text.\n\n"]
    assert splitter.open_fence == "````py\n"
    assert splitter.feed("````\n\nafter") == ["````py\na\n\n```\n\nb\n````\n\n"]
    assert (splitter.open_fence, splitter.rest) == ("", "after")


def test_what_is_indented_stays_with_the_list_above() -> None:
    blocks, rest = split("- one\n\n  more of one\n\n- two\n\nText")
    assert blocks == ["- one\n\n  more of one\n\n", "- two\n\n"]
    assert rest == "Text"
