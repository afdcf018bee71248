"""Where a tokenizer is at hand a conversation is as large as it says, until a report says more."""

from __future__ import annotations

import threading

import pytest

from support.compacting import WINDOW, Talk, filled, slide
from treadle.compaction.compactor import Compactor
from treadle.compaction.gauge import FindCounter
from treadle.models.scripted import Reply
from treadle.thread.message import Usage
from treadle.thread.thread import Thread


class Tokenizer:
    """Counts so many tokens for each character, and remembers in which threads."""

    def __init__(self, tokens_of_character: float) -> None:
        self.threads: set[int] = set()
        self._tokens_of_character = tokens_of_character

    def count(self, text: str) -> int:
        self.threads.add(threading.get_ident())
        return int(len(text) * self._tokens_of_character)


def counted(thread: Thread, find: FindCounter) -> Talk:
    """Talk with a compactor that finds a tokenizer."""
    talk = Talk(thread)
    talk.compactor = Compactor(
        window=WINDOW, ladder=slide(), tell=talk.told.append, find_counter=find
    )
    return talk


@pytest.mark.parametrize(("tokens_of_character", "compactions"), [(0.25, 0), (0.5, 1)])
async def test_dense_text_is_compacted_before_an_endpoint_would_refuse_it(
    thread: Thread, tokens_of_character: float, compactions: int
) -> None:
    tokenizer = Tokenizer(tokens_of_character)
    talk = counted(thread, lambda: tokenizer.count)
    await filled(thread, turns=2)  # some 430 by the approximation
    model = await talk.say("And?", "Fine.")
    assert len(talk.ends) == compactions
    sent = sum(int(len(one.text) * tokens_of_character) for one in model.requests[0].messages)
    assert sent < 700
    assert tokenizer.threads and threading.get_ident() not in tokenizer.threads


async def test_text_that_takes_fewer_tokens_than_it_seems_is_left(thread: Thread) -> None:
    tokenizer = Tokenizer(0.1)
    talk = counted(thread, lambda: tokenizer.count)
    await filled(thread, turns=4)  # some 860 by the approximation
    await talk.say("And?", "Fine.")
    assert talk.told == []


async def test_a_report_stands_above_a_count(thread: Thread) -> None:
    tokenizer = Tokenizer(1)
    talk = counted(thread, lambda: tokenizer.count)
    await talk.say("x" * 600, Reply("Fine.", usage=Usage(100, 5)))
    await talk.say("x" * 400, "Fine.")
    # By the count alone, a thousand tokens; by the report, a hundred and what came since.
    assert talk.told == []
    assert 500 < talk.compactor.reckon(thread, 0).tokens < 550


async def test_what_came_since_a_report_is_counted(thread: Thread) -> None:
    tokenizer = Tokenizer(1)
    talk = counted(thread, lambda: tokenizer.count)
    await talk.say("Hello.", Reply("Fine.", usage=Usage(100, 5)))
    await talk.say("x" * 650, "Fine.")
    assert len(talk.ends) == 1


async def test_no_tokenizer_is_looked_for_while_a_conversation_is_small(thread: Thread) -> None:
    looked: list[None] = []
    talk = counted(thread, lambda: looked.append(None))
    await talk.say("Hello.", "Fine.")
    assert looked == []
    await talk.say("x" * 600, "Fine.")
    assert looked == [None]


async def test_what_a_tokenizer_cannot_count_is_compacted_by_the_approximation(
    thread: Thread,
) -> None:
    talk = counted(thread, lambda: lambda text: None)
    await filled(thread, turns=4)
    await talk.say("And?", "Fine.")
    assert [end.outcome for end in talk.ends] == ["completed"]


async def test_a_conversation_that_was_compacted_is_counted_anew(thread: Thread) -> None:
    tokenizer = Tokenizer(0.5)
    talk = counted(thread, lambda: tokenizer.count)
    for number in range(12):
        await talk.say(f"{number} {'q' * 400}", "Fine.")
        found = talk.compactor.reckon(thread, 0)
        assert found.tokens <= WINDOW
    assert len(talk.ends) > 2 and {end.outcome for end in talk.ends} == {"completed"}
