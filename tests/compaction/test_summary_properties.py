"""Whatever a summariser says: what must stay stays, and a conversation becomes smaller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import CompactionEnv, rest
from treadle.compaction.sections import SECTIONS
from treadle.compaction.summariser import NoSummary, Said
from treadle.compaction.summarize import Summarize
from treadle.errors import ContextOverflow, ModelUnreachable
from treadle.thread.history import NOTE_MARK, SUMMARY_MARK, Placed
from treadle.thread.message import Message, ToolCall

GOOD = "## Objective\nGo on.\n## Identifiers\n- AB-1234"
LONG = GOOD + "".join(f"\n- number {n}" for n in range(90))
REPLIES = (GOOD, LONG, "", "ARRR", "## Objective\n" + "x" * 90_000)
FAILURES = (ContextOverflow("too long"), NoSummary("none"), ModelUnreachable("down"))

TEXTS = st.builds(
    lambda word, count: (word + " ") * count, st.sampled_from("ab\n"), st.integers(0, 400)
)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    entries: list[Placed] = []
    if draw(st.booleans()):
        entries.append(Placed(Message("user", SUMMARY_MARK + LONG), None, "summary"))
    if draw(st.booleans()):
        note = NOTE_MARK + "3 earlier messages are not shown any more."
        entries.append(Placed(Message("user", note), None, "note"))
    ordinal = 0
    for kind in draw(
        st.lists(st.sampled_from(("user", "says", "calls", "system")), min_size=5, max_size=25)
    ):
        said = [Message("user" if kind == "user" else "system", draw(TEXTS))]
        if kind == "says":
            said = [Message("assistant", draw(TEXTS))]
        elif kind == "calls":
            calls = [ToolCall(f"c{ordinal}_{n}", "f") for n in range(draw(st.integers(1, 3)))]
            results = [Message("tool", draw(TEXTS), tool_call_id=call.id) for call in calls]
            said = [Message("assistant", tool_calls=calls), *results]
        for message in said:
            entries.append(Placed(message, ordinal))
            ordinal += 1
    return Conversation(tuple(entries), {}, draw(st.integers(0, 3)))


class Drawn:
    """Says what was drawn, over and over."""

    def __init__(self, answers: Sequence[str | Exception], window: int) -> None:
        self.window = window
        self.calls = 0
        self._answers = answers

    async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
        answer = self._answers[self.calls % len(self._answers)]
        self.calls += 1
        if isinstance(answer, Exception):
            raise answer
        return Said(answer)


def measured(made: Conversation) -> int:
    return tokens_of(entry.message for entry in made.entries)


@given(
    conversations(),
    st.lists(st.sampled_from((GOOD, LONG, *REPLIES, *FAILURES)), min_size=1, max_size=6),
    st.sampled_from((8_000, 1_500, 3_000, 100_000, 500)),
    st.integers(1, 4_000),
)
def test_what_must_stay_stays_and_all_becomes_smaller(
    before: Conversation, answers: list[str | Exception], window: int, target: int
) -> None:
    env = CompactionEnv(before, target, measured)
    summariser = Drawn(answers, window)
    asyncio.run(Summarize(rest, summariser=summariser)(env))
    made = env.conversation
    assert summariser.calls <= 6 + 4 + 2
    if made is before:
        return
    assert measured(made) < measured(before)
    assert [entry.made for entry in made.entries].count("summary") == 1
    assert [line for line in made.summary.splitlines() if line.startswith("##")] == [
        f"## {name}" for name in SECTIONS
    ]
    assert len(made.summary) <= max(window // 6, 1) * 4
    kept = [entry for entry in made.entries if entry.made != "summary"]
    there = [entry for entry in before.entries if entry.made != "summary"]
    assert kept == [entry for entry in there if entry in kept]
    assert all(before.entries[place] in kept for place in before.protected)
    assert [entry for entry in kept if entry.made] == [entry for entry in there if entry.made]
    calls = [call.id for entry in made.entries for call in entry.message.tool_calls]
    assert calls == [e.message.tool_call_id for e in made.entries if e.message.role == "tool"]
    if before.summary:
        assert "AB-1234" in made.summary
