"""What holds of every compaction: properties over any conversations, ladders and rounds of both."""

from __future__ import annotations

import asyncio
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.any_conversation import ALL, LOCAL, Round, rounds
from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import Size
from treadle.compaction.ladder import CompactionEnv
from treadle.compaction.oversize import LEAST_TOKENS
from treadle.thread.history import Placed
from treadle.thread.repair import INTERRUPTED_TEXT, view
from treadle.thread.thread import Thread

# As many as find each mistake that was planted to try them, in a few seconds.
few = settings(max_examples=30)
many = settings(max_examples=120)


@many
@given(st.lists(rounds(LOCAL), min_size=1, max_size=3))
def test_what_goes_without_a_summariser_goes_by_the_rules(story: list[Round]) -> None:
    asyncio.run(_told(Thread.in_memory(), story))


@many
@given(st.lists(rounds(ALL), min_size=1, max_size=3))
def test_what_goes_with_a_summariser_of_any_kind_goes_by_the_rules(story: list[Round]) -> None:
    asyncio.run(_told(Thread.in_memory(), story))


@few
@given(st.lists(rounds(ALL), min_size=1, max_size=3))
def test_a_file_that_is_opened_again_shows_the_conversation_that_was_promised(
    story: list[Round],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "thread.jsonl"
        thread = Thread.open(path)
        try:
            asyncio.run(_told(thread, story))
            shown = _shown(thread)
        finally:
            thread.close()
        again = Thread.open(path)
        try:
            assert _shown(again) == shown
        finally:
            again.close()


@many
@given(rounds(LOCAL), st.sampled_from([(), ("tool_results",)]))
def test_a_ladder_that_ends_locally_reaches_the_limit_or_leaves_nothing_to_cut(
    one: Round, first: tuple[str, ...]
) -> None:
    one = replace(one, ladder=(*first, "sliding_window", "oversize"))
    before = Conversation.of([Placed(m, o) for o, m in enumerate(one.said)], None, one.keep_steps)
    env = one.env(before)
    asyncio.run(one.build()(env))
    made = env.conversation

    limit = max(one.target, one.limit)
    large = {
        place
        for place, entry in enumerate(made.entries)
        if entry.message.role != "system" and _content(made, place) > LEAST_TOKENS
    }
    if env.tokens > limit:
        assert not large
    if made.task is not None and made.entries[made.task].ordinal in made.rewritten:
        assert not large - {made.task}, "the person's newest text is the last that is cut"
        assert before.task is not None
        entries = list(made.entries)
        entries[made.task] = before.entries[before.task]
        assert one.measure(Conversation(tuple(entries), {})) > limit, "it had to be"


async def _told(thread: Thread, story: list[Round]) -> None:
    """Live through some rounds, and look at each."""
    for number, one in enumerate(story):
        for message in one.said:
            await thread.append(message)
        shown = _shown(thread)
        before = Conversation.of(shown, thread.compaction, one.keep_steps)
        assert list(before.entries) == shown
        env = one.env(before)
        await one.build()(env)
        await _require_the_rules(one, before, env)
        if env.conversation is before:
            continue
        last = thread.reading().history.last
        await thread.record_compaction(env.conversation.record(f"c{number}", last))
        assert _shown(thread) == list(env.conversation.entries)
        again = Conversation.of(_shown(thread), thread.compaction, one.keep_steps)
        assert again == env.conversation
        assert again.size == env.conversation.size


async def _require_the_rules(one: Round, before: Conversation, env: CompactionEnv) -> None:
    made = env.conversation
    await _require_progress(one, before, env)
    ordinals = [entry.ordinal for entry in made.entries if entry.ordinal is not None]
    assert ordinals == sorted(set(ordinals))
    assert set(ordinals) <= before.ordinals()

    never = {before.entries[place].ordinal for place in before.protected}
    assert never <= set(ordinals)
    for step in before.steps:
        there = {before.entries[place].ordinal in made.ordinals() for place in step}
        assert len(there) == 1, "a step is whole, or not at all"
    assert _made_up(made) <= _made_up(before), "no call lost its result"
    for place, entry in enumerate(before.entries):
        if entry.message.role == "system" and place in before.protected:
            assert entry in made.entries
    if before.task is not None:
        assert made.task is not None
        task = before.entries[before.task]
        assert made.entries[made.task].ordinal == task.ordinal
        if "oversize" not in one.ladder:
            assert task in made.entries

    _require_one_summary_and_one_note(one, before, made)
    _require_that_only_what_may_be_is_rewritten(one, before, made)


async def _require_progress(one: Round, before: Conversation, env: CompactionEnv) -> None:
    tokens = one.measure(before)
    for attempt in env.attempts:
        assert attempt.before == tokens > one.target, "none is asked that is not needed"
        assert attempt.after <= attempt.before
        tokens = attempt.after
    assert env.tokens == tokens <= one.measure(before)
    if env.conversation is not before:
        assert env.tokens < one.measure(before)
    if not env.is_over:
        again = one.env(env.conversation)
        await one.build()(again)
        assert again.conversation is env.conversation and not again.attempts


def _require_one_summary_and_one_note(one: Round, before: Conversation, made: Conversation) -> None:
    kinds = [entry.made for entry in made.entries if entry.made is not None]
    assert kinds in ([], ["note"], ["summary"], ["summary", "note"])
    if before.summary:
        assert made.entries[0].made == "summary"
        is_cut = "oversize" in one.ladder
        assert made.summary.startswith(before.summary[:20] if is_cut else before.summary)
    if not {"folding", "bloating"} & set(one.ladder):
        assert _counted(made) == _counted(before) + len(before.ordinals() - made.ordinals())


def _require_that_only_what_may_be_is_rewritten(
    one: Round, before: Conversation, made: Conversation
) -> None:
    newest = before.steps[-1] if before.steps else ()
    was = {entry.ordinal: (place, entry) for place, entry in enumerate(before.entries)}
    for entry in made.entries:
        if entry.ordinal is None or entry == was[entry.ordinal][1]:
            continue
        place, old = was[entry.ordinal]
        assert {"oversize", "tool_results"} & set(one.ladder)
        if "oversize" not in one.ladder:
            assert old.message.role == "tool" and place not in newest
        assert entry.message.text == made.rewritten[entry.ordinal]
        assert "[treadle left out" in entry.message.text
        assert entry.message.tool_calls == old.message.tool_calls
        assert entry.message.tool_call_id == old.message.tool_call_id


def _shown(thread: Thread) -> list[Placed]:
    reading = thread.reading()
    return reading.history.view(zip(reading.ordinals, reading.messages, strict=True))


def _made_up(conversation: Conversation) -> int:
    """Count the results that are not there and have to be made up for a model."""
    sent = view(entry.message for entry in conversation.entries)
    return sum(message.content == INTERRUPTED_TEXT for message in sent)


def _counted(conversation: Conversation) -> int:
    notes = [entry.message.text for entry in conversation.entries if entry.made == "note"]
    return sum(int(number) for text in notes for number in re.findall(r"(\d+) earlier", text))


def _content(conversation: Conversation, place: int) -> int:
    size = conversation.sizes[place]
    text = conversation.entries[place].message.text
    return Size(len(text), attachments=size.attachments).tokens
