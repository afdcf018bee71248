"""What a chat shows of messages that a thread has."""

from __future__ import annotations

from treadle.cli.chat.items import Note, Said
from treadle.cli.chat.remembered import items_of


def test_a_message_that_was_cut_says_how_much_is_missing_and_where_it_is() -> None:
    cut = {"role": "user", "content": "xx", "truncated": {"bytes": 5, "path": "thread.jsonl"}}

    assert items_of([cut, {"role": "user", "content": "behind"}]) == [
        Said("xx"),
        Note("5 bytes more: see treadle sessions export"),
        Said("behind"),
    ]
