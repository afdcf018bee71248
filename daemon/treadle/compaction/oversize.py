"""The strategy Oversize: messages that are too large by themselves are cut; both ends stay.

Every ladder ends with it, for a window holds no tool's output of two megabytes, whatever else is
given up. What is never given up is cut only where the conversation is over the limit without
that: first the results of the newest steps and a summary, and the task last, no further than it
takes. No model is needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import pairwise
from typing import TypeAlias

from treadle.compaction.conversation import Conversation, Measure
from treadle.compaction.counting import CHARACTERS_OF_TOKEN, Size
from treadle.compaction.cutting import IN_SESSION, Cut
from treadle.compaction.ladder import CompactionEnv, Strategy, fewest
from treadle.stack.stack import App
from treadle.thread.history import SUMMARY_MARK

# As much of a text stays at least: the words for what is missing, and a line of each end. A
# summary's mark is in that line.
LEAST_TOKENS = 64

# One cut is as a rule enough if it goes a little further than what was reckoned.
SLACK = 0.99

Spill: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Sees to it that a text which is not shown whole any more can be read: the thread has it.

Contract: returns the path that a model reads it by, or None where it cannot. What it returns stands
in the thread, so it names this text or nothing, in later sessions too. Raises nothing; ends within
a bound of its own.
"""


class Oversize(Strategy):
    """Cuts the largest messages to one size, as far as the target needs it.

    Args:
        app: the rest of the ladder.
        spill: says where a model reads the whole; without it only a person can.
    """

    name = "oversize"

    def __init__(self, app: App[CompactionEnv], spill: Spill | None = None) -> None:
        super().__init__(app)
        self._spill = spill

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Cut what may be given up, then what may not where it has to be."""
        before = made = env.conversation
        task = {before.task} if before.task is not None else set()
        places = set(range(len(before.entries)))
        limit = max(env.limit, env.target)
        made = _cut(made, places - before.protected - _summaries(before), env.target, env.measure)
        if env.measure(made) > limit:
            made = _cut(made, places - task, env.target, env.measure)
        if env.measure(made) > limit:
            # Half of what is between leaves room for some steps, before it would be cut again.
            made = _cut(made, task, (env.target + limit) // 2, env.measure)
        return await self._spilled(before, made) if made is not before else None

    async def _spilled(self, before: Conversation, made: Conversation) -> Conversation:
        """Say where what was cut is whole."""
        texts: dict[int, str] = {}
        for place, (was, entry) in enumerate(zip(before.entries, made.entries, strict=True)):
            if entry is was or entry.ordinal is None or self._spill is None:
                continue
            cut = Cut.of(was.message, was.ordinal in before.rewritten)
            if cut.where or not cut.head:
                continue
            if path := await self._spill(cut.head):
                where = f"{IN_SESSION}, its text in {path}" if cut.attachments else path
                texts[place] = cut.shortened(len(entry.message.text), where).text
        return made.rewrite(texts) if texts else made


def _summaries(conversation: Conversation) -> set[int]:
    return {place for place, entry in enumerate(conversation.entries) if entry.made == "summary"}


def _cut(
    conversation: Conversation, places: Collection[int], goal: int, measure: Measure
) -> Conversation:
    """Cut the largest texts to one size, so that a goal is met or as little as is sensible stays.

    Returns:
        The same conversation where there is nothing to cut.
    """
    large = {place: _tokens(conversation, place) for place in places}
    large = {place: tokens for place, tokens in large.items() if tokens > LEAST_TOKENS}
    now = measure(conversation)
    if not large or now <= goal:
        return conversation
    # What is measured is proportional to what is counted, or nearly so.
    guess = _level(large.values(), (now - goal) * conversation.size.tokens / now)
    made = _cut_to(conversation, large, guess)
    if measure(made) <= goal or guess == LEAST_TOKENS:
        return made

    def cut(less: int) -> Conversation:
        return _cut_to(conversation, large, guess - less)

    return cut(fewest(guess - LEAST_TOKENS, lambda less: measure(cut(less)) <= goal))


def _level(sizes: Iterable[int], needed: float) -> int:
    """Return how many tokens all may have at most, for so many to be cut in all."""
    falling = sorted(sizes, reverse=True)
    above = 0
    for count, (size, next_size) in enumerate(pairwise([*falling, LEAST_TOKENS]), 1):
        above += size
        if above - count * next_size >= needed:
            return max(int((above - needed) / count * SLACK), LEAST_TOKENS)
    return LEAST_TOKENS


def _tokens(conversation: Conversation, place: int) -> int:
    """Return how much of a message can be cut: its text and attachments, and never its calls."""
    entry = conversation.entries[place]
    if entry.message.role == "system" or entry.made == "note":
        return 0
    attachments = conversation.sizes[place].attachments
    return Size(len(entry.message.text), attachments=attachments).tokens


def _cut_to(conversation: Conversation, large: Mapping[int, int], tokens: int) -> Conversation:
    texts: dict[int, str] = {}
    summary = ""
    for place in (place for place, has in large.items() if has > tokens):
        entry = conversation.entries[place]
        cut = Cut.of(
            entry.message, entry.made is not None or entry.ordinal in conversation.rewritten
        )
        text = cut.shortened(tokens * CHARACTERS_OF_TOKEN, IN_SESSION).text
        if entry.ordinal is None:
            # Its mark is put before it again.
            summary = text.removeprefix(SUMMARY_MARK)
        else:
            texts[place] = text
    made = conversation.rewrite(texts)
    return made.summarised(summary) if summary else made
