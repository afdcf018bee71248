"""What a summary takes the place of, and what its summariser is given: in rounds, and bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import CompactionEnv, rest
from treadle.compaction.request import INSTRUCTIONS
from treadle.compaction.sections import SECTIONS, Sections
from treadle.compaction.summariser import NoSummary, Said
from treadle.compaction.summarize import Summarize
from treadle.errors import ContextOverflow, ModelRateLimited
from treadle.thread.history import SUMMARY_MARK, Placed
from treadle.thread.message import Message, ToolCall, Usage

GOOD = "## Objective\nTalk.\n## Decisions\nNone.\n## Work done\nTalked of {}.\n"

Answer = str | Exception | Callable[[str], str]


@dataclass
class Fake:
    """Answers in order, the last one for ever; keeps what it was given."""

    answers: Sequence[Answer] = (GOOD.format("much"),)
    window: int = 8_000
    given: list[str] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    async def say(self, instructions: str, text: str, max_tokens: int) -> Said:
        assert instructions == INSTRUCTIONS
        self.given.append(text)
        self.limits.append(max_tokens)
        answer = self.answers[min(len(self.given), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        said = answer if isinstance(answer, str) else answer(text)
        return Said(said, Usage(10, 1))


def turn(number: int, words: int = 100) -> list[Message]:
    call = ToolCall(f"c{number}", "read", {"path": f"file{number}.txt"})
    return [
        Message("user", f"Question {number}: " + "why " * words),
        Message("assistant", tool_calls=[call]),
        Message("tool", f"Content {number}: " + "so " * words, tool_call_id=call.id),
        Message("assistant", f"Answer {number}: " + "thus " * words),
    ]


def talk(turns: int, words: int = 100) -> list[Message]:
    return [message for number in range(turns) for message in turn(number, words)]


def conversation(messages: list[Message], *made: Placed, keep_steps: int = 2) -> Conversation:
    entries = [Placed(message, ordinal) for ordinal, message in enumerate(messages)]
    return Conversation((*made, *entries), {}, keep_steps)


def measured(made: Conversation) -> int:
    return tokens_of(entry.message for entry in made.entries)


def env_of(messages: list[Message], *made: Placed, keep_steps: int = 2) -> CompactionEnv:
    return CompactionEnv(conversation(messages, *made, keep_steps=keep_steps), 500, measured)


def summary(text: str) -> Placed:
    return Placed(Message("user", SUMMARY_MARK + text), None, "summary")


async def summarised(env: CompactionEnv, summariser: Fake) -> Conversation:
    await Summarize(rest, summariser=summariser)(env)
    return env.conversation


async def test_what_is_before_the_newest_steps_becomes_one_summary() -> None:
    messages = [*talk(3), Message("user", "And now?")]
    made = await summarised(env := env_of(messages), fake := Fake())
    assert [entry.message for entry in made.entries[1:]] == messages[9:]
    text = made.summary
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        f"## {name}" for name in SECTIONS
    ]
    assert Sections.read(text).lines["Work done"] == ("Talked of much.",)
    assert text.endswith("## Outstanding\nNothing.")
    assert env.usage == Usage(10, 1) and len(fake.given) == 1
    for old in ("Question 0", 'read({"path":"file1.txt"})', "Content 1", "Question 2"):
        assert old in fake.given[0]
    assert "And now?" not in fake.given[0] and "Answer 2" not in fake.given[0]


async def test_the_task_stays_and_its_summariser_knows_it() -> None:
    steps = [message for number in range(4) for message in turn(number)[1:3]]
    messages = [Message("user", "Old."), *turn(9), Message("user", "Read all files."), *steps]
    made = await summarised(env_of(messages), fake := Fake())
    assert [entry.message.text for entry in made.entries[1:2]] == ["Read all files."]
    assert [entry.message for entry in made.entries[2:]] == steps[-4:]
    assert "> (this stays) user: Read all files." in fake.given[0]


async def test_an_earlier_summary_is_folded_into_the_next() -> None:
    earlier = GOOD.format("the weather") + "## Identifiers\n- PROJ-77: the ticket\n"
    fake = Fake([GOOD.format("all")])
    made = await summarised(env_of(talk(3), summary(earlier)), fake)
    assert "> ## Objective\n| Talk." in fake.given[0] and "PROJ-77" in fake.given[0]
    assert [entry.made for entry in made.entries].count("summary") == 1
    assert Sections.read(made.summary).lines == {
        "Objective": ("Talk.",),
        "Decisions": (),
        "Work done": ("Talked of all.",),
        "Identifiers": ("- PROJ-77: the ticket",),
        "Outstanding": (),
    }


async def test_an_identifier_that_a_person_named_survives_ten_summaries_that_lose_it() -> None:
    messages = [Message("user", "The vault's code is 48213, remember it."), *talk(3)]
    entries = conversation(messages).entries
    text = ""
    for _ in range(10):
        made = [summary(text)] if text else []
        env = CompactionEnv(Conversation((*made, *entries), {}), 500, measured)
        text = (await summarised(env, Fake())).summary
        entries = conversation(talk(3)).entries
    assert "- The vault's code is 48213, remember it." in text.splitlines()


async def test_a_large_newest_step_costs_an_earlier_summary_nothing() -> None:
    earlier = GOOD.format("much") + "".join(f"- and of subject {n} at length\n" for n in range(100))
    earlier = Sections.read(earlier).text
    messages = [*talk(2), Message("user", "Go."), *turn(7, words=2_000)[1:]]
    fake = Fake([earlier], window=32_000)
    made = await summarised(env_of(messages, summary(earlier)), fake)
    assert "subject 99" in fake.given[0]
    assert made.summary == earlier


async def test_what_whoever_asked_wants_kept_is_given_to_the_summariser() -> None:
    env = env_of(talk(3))
    env.instructions = "Keep the colours.\n</wishes>"
    await summarised(env, fake := Fake())
    assert "> Keep the colours.\n| </wishes>" in fake.given[0]


async def test_a_conversation_larger_than_the_summarisers_window_is_read_in_rounds() -> None:
    fake = Fake([lambda text: GOOD.format(text.count("Question"))], window=3_000)
    made = await summarised(env_of(talk(15)), fake)
    assert 1 < len(fake.given) <= 6
    assert len(made.entries) == 1 + 4
    for number, given in enumerate(fake.given):
        assert tokens_of([Message("system", INSTRUCTIONS), Message("user", given)]) < 3_000 * 0.75
        assert ("<earlier " in given) is (number > 0)
    read = "".join(fake.given)
    assert all(f"Question {number}:" in read for number in range(15))


async def test_one_message_of_two_megabytes_is_shortened_and_read() -> None:
    messages = [Message("user", "Look."), *talk(1), Message("user", "x y " * 500_000), *talk(1)]
    made = await summarised(env_of(messages), fake := Fake())
    assert len(fake.given) <= 2 and len(made.entries) == 1 + 4
    assert "characters are left out" in "".join(fake.given)


async def test_what_is_too_large_for_it_all_the_same_is_given_in_smaller_chunks() -> None:
    overflow = ContextOverflow("too long")
    fake = Fake([overflow, overflow, GOOD.format("all")])
    made = await summarised(env := env_of(talk(6)), fake)
    assert len(fake.given[0]) > len(fake.given[1]) > len(fake.given[2])
    assert made.summary and env.tokens < measured(conversation(talk(6)))


async def test_smaller_chunks_are_tried_a_few_times_only() -> None:
    fake = Fake([ContextOverflow("too long")], window=200_000)
    env = env_of(before := talk(200))
    await summarised(env, fake)
    assert len(fake.given) == 5
    assert env.conversation == conversation(before)
    assert env.attempts[0].problem == "too long"


async def test_the_last_good_round_stands_where_a_later_one_fails() -> None:
    fake = Fake([GOOD.format("the start"), ModelRateLimited("slow down")], window=3_000)
    env = env_of(talk(20))
    made = await summarised(env, fake)
    assert "Talked of the start." in made.summary
    assert 4 < len(made.entries) < 80
    assert made.entries[-1].message == talk(20)[-1]
    assert env.attempts[0].after < env.attempts[0].before and not env.attempts[0].problem
    shown = [entry.message for entry in made.entries[1:]]
    assert shown == talk(20)[-len(shown) :]


async def test_a_reply_that_is_no_summary_is_asked_for_again_and_told_why() -> None:
    fake = Fake([NoSummary("it said nothing", Usage(3, 0)), "Hello!", GOOD.format("all")])
    env = env_of(talk(3))
    made = await summarised(env, fake)
    assert "Talked of all." in made.summary
    assert "could not be taken: it said nothing." in fake.given[1]
    assert "none of the five headings" in fake.given[2]
    assert env.usage == Usage(3 + 20, 2)


async def test_it_is_not_asked_for_ever() -> None:
    fake = Fake(["Hello!"])
    env = env_of(talk(3))
    await summarised(env, fake)
    assert len(fake.given) == 3 and env.conversation == conversation(talk(3))
    assert "headings" in env.attempts[0].problem


async def test_a_summary_is_never_longer_than_its_bound() -> None:
    long = GOOD.format("much") + "## Outstanding\n" + "And so on, and so on.\n" * 60
    wordy = long.replace("And so", "And then so")
    for reply in (long, wordy):
        fake = Fake([reply + "".join(f"- step {n}\n" for n in range(100))])
        made = await summarised(env_of(talk(3)), fake)
        assert made.summary and len(made.summary) <= fake.limits[0] * 4


async def test_what_is_hardly_longer_than_a_summary_costs_no_call() -> None:
    env = env_of([Message("user", "Hi."), Message("assistant", "Hi."), *talk(1)])
    env.target = 1
    await summarised(env, fake := Fake())
    assert not fake.given and env.attempts[0].before == env.attempts[0].after


async def test_a_summariser_with_hardly_a_window_is_not_asked() -> None:
    env = env_of(talk(3))
    await summarised(env, fake := Fake(window=600))
    assert not fake.given and "too small to summarise in" in env.attempts[0].problem


@pytest.mark.parametrize("keep_steps", [0, 1, 2, 5, 40])
async def test_no_call_is_parted_from_its_result(keep_steps: int) -> None:
    made = await summarised(env_of(talk(8), keep_steps=keep_steps), Fake(window=2_000))
    calls = [call.id for entry in made.entries for call in entry.message.tool_calls]
    answered = [e.message.tool_call_id for e in made.entries if e.message.role == "tool"]
    assert calls == answered
    questions = [e.message.text for e in made.entries if e.message.text.startswith("Question 7")]
    assert len(questions) == 1
