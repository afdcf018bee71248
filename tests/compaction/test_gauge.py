"""What is kept of a conversation's size is what measuring it afresh would say, whatever came."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.any_conversation import talks
from support.compacting import filled
from treadle.compaction import gauge as gauges
from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import size_of, tokens_of
from treadle.compaction.gauge import Gauge
from treadle.compaction.reckoning import Tally
from treadle.thread.message import Message, Usage
from treadle.thread.thread import Thread


def by_words(text: str) -> int:
    """Take each word for a token."""
    return len(text.split())


def afresh(thread: Thread) -> Tally:
    """Measure a view with nothing kept, in the plainest way."""
    entries = thread.placed()
    size = size_of(entry.message for entry in entries)
    through = thread.compaction.through if thread.compaction else -1
    for place, entry in reversed([*enumerate(entries)]):
        if entry.ordinal is None or entry.ordinal <= through:
            break
        usage = entry.message.usage
        if entry.message.role == "assistant" and usage is not None and usage.input_tokens:
            since = size_of(entry.message for entry in entries[place + 1 :])
            return Tally(size, usage.input_tokens + usage.output_tokens, since)
    return Tally(size)


class Story:
    """A thread that much is done to, and what has watched it all the time.

    Args:
        path: its file; None for one in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.thread = Thread.open(path) if path else Thread.in_memory()
        self.gauge = Gauge()
        self.counting = Gauge(lambda: by_words)

    async def do(self, step: tuple[str, Any]) -> None:
        """Do one thing to the thread, and look at it."""
        kind, what = step
        await getattr(self, kind)(what)
        assert self.gauge.tally(self.thread) == afresh(self.thread)
        sizes = [size_of((entry.message,)) for entry in self.thread.placed()]
        assert list(self.gauge.sizes(self.thread)) == sizes

    async def say(self, messages: list[Message]) -> None:
        self.thread.start_turn()
        for place, message in enumerate(messages):
            usage = Usage(place * 7, 5) if message.role == "assistant" and place % 3 else None
            said = Message(
                message.role, message.content, message.tool_calls, message.tool_call_id, usage=usage
            )
            await self.thread.append(said)
        await self.thread.end_turn("end_turn", Usage(), 1)

    async def rewind(self, part: float) -> None:
        held = [one.ordinal for one in self.thread.placed() if one.ordinal is not None]
        if held:
            await self.thread.rewind([-1, *held][int(part * len(held))])

    async def compact(self, what: tuple[int, str, str]) -> None:
        left, note, summary = what
        before = Conversation.of(self.thread.placed(), self.thread.compaction)
        if self.thread.last < 0 or not before.ordinals():
            return
        after = before.without(range(left, len(before.entries), 2))
        texts = {at: note for at, one in enumerate(after.entries[:1]) if one.ordinal is not None}
        after = after.rewrite(texts)
        after = after.noting(note, len(after.entries)) if note else after
        after = after.summarised(summary) if summary else after
        await self.thread.record_compaction(after.record(f"c{left}", self.thread.last))

    async def reopen(self, is_deleted: bool) -> None:
        if self.path is None:
            self.thread = Thread.in_memory(after=self.thread)
            return
        if is_deleted:
            self.path.unlink()
            self.thread.start_turn()
            await self.thread.end_turn("end_turn", Usage(), 0)
            return
        self.thread.close()
        self.thread = Thread.open(self.path)

    async def count(self, _: None) -> None:
        await self.counting.count(self.thread)
        fresh = Gauge(lambda: by_words)
        await fresh.count(self.thread)
        assert self.counting.tally(self.thread) == fresh.tally(self.thread)
        assert self.counting.sizes(self.thread) == fresh.sizes(self.thread)
        assert self.counting.is_exact or not self.thread.placed()

    async def look_in_between(self, _: None) -> None:
        """Have something measured by the approximation that is to be counted later."""
        self.counting.tally(self.thread)


texts = st.sampled_from(["", "a few words", "[treadle note]\nforged", "w " * 900])
STEPS = st.one_of(
    st.tuples(st.just("say"), talks()),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
    st.tuples(st.just("compact"), st.tuples(st.integers(0, 3), texts, texts)),
    st.tuples(st.just("reopen"), st.booleans()),
    st.tuples(st.sampled_from(["count", "look_in_between"]), st.none()),
)


@settings(max_examples=150)
@given(st.booleans(), st.lists(STEPS, max_size=14))
def test_what_is_kept_is_what_measuring_afresh_says(
    is_in_file: bool, steps: list[tuple[str, Any]]
) -> None:
    async def told(path: Path | None) -> None:
        story = Story(path)
        try:
            for step in [*steps, ("count", None)]:
                await story.do(step)
        finally:
            story.thread.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(told(Path(folder, "t.jsonl") if is_in_file else None))


async def test_a_file_that_another_took_the_place_of_is_measured_anew(tmp_path: Path) -> None:
    thread, gauge = Thread.open(tmp_path / "t.jsonl"), Gauge()
    await thread.append(Message("user", "short"))
    gauge.tally(thread)
    (tmp_path / "t.jsonl").unlink()
    thread.start_turn()
    await thread.append(Message("user", "something long"))
    assert gauge.tally(thread) == afresh(thread)
    thread.close()


async def test_only_what_is_new_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, gauge = Thread.in_memory(), Gauge()
    await filled(thread)
    measured: list[int] = []

    def size(messages: tuple[Message, ...]) -> Any:
        measured.append(len(messages))
        return size_of(messages)

    monkeypatch.setattr(gauges, "size_of", size)
    assert gauge.tally(thread).size.messages == len(measured) == 8
    await filled(thread, turns=1)
    assert gauge.tally(thread).size.messages == len(measured) == 10
    gauge.tally(thread)
    assert len(measured) == 10


async def test_a_text_is_counted_where_it_can_be_and_taken_for_what_it_seems_else() -> None:
    thread = Thread.in_memory()
    said = Message("user", "one two three " * 100)
    await thread.append(said)
    for count, tokens in ((by_words, 301 + 4), (lambda text: None, tokens_of([said]))):
        gauge = Gauge(lambda count=count: count)  # type: ignore[misc]  # mypy infers no default
        await gauge.count(thread)
        assert gauge.tally(thread).size.counted == tokens
        assert gauge.tally(thread).size.tokens == tokens_of([said])


async def test_what_is_long_past_is_not_counted_where_that_would_cost_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gauges, "EXACT_CHARACTERS", 1_000)
    thread, counted = Thread.in_memory(), list[str]()

    def count(text: str) -> int:
        counted.append(text)
        return 0

    await filled(thread)
    gauge = Gauge(lambda: count)
    await gauge.count(thread)
    newest = [f"{one.role}: {one.text}" for one in reversed(thread.view())]
    assert counted == newest[:3]
    assert [size.more < 0 for size in gauge.sizes(thread)] == [False] * 5 + [True] * 3


async def test_a_tokenizer_that_is_not_at_hand_yet_keeps_nobody_waiting() -> None:
    thread, found = Thread.in_memory(), list[Any]()
    await filled(thread)
    gauge = Gauge(lambda: found[0] if found else None)
    coroutine = gauge.count(thread)
    with pytest.raises(StopIteration):
        coroutine.send(None)  # it has ended without having waited for anything
    assert not gauge.is_exact
    approximate = gauge.tally(thread).size
    found.append(by_words)
    await gauge.count(thread)
    assert gauge.is_exact and gauge.tally(thread).size.counted != approximate.counted
