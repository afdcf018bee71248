"""What goes first, and what never does: the strategies that need no model."""

from __future__ import annotations

from compaction.test_counting import reference
from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import Attempt, CompactionEnv, rest
from treadle.compaction.sliding_window import SlidingWindow, note_text
from treadle.compaction.tool_results import ToolResults
from treadle.thread.history import Placed
from treadle.thread.message import Message, ToolCall
from treadle.thread.records import CompactedRecord


def conversation(messages: list[Message]) -> Conversation:
    entries = [Placed(message, ordinal) for ordinal, message in enumerate(messages)]
    return Conversation.of(entries, None)


def measured(made: Conversation) -> int:
    system = Message("system", "instructions")
    return tokens_of([system, *(entry.message for entry in made.entries)])


async def test_old_results_become_notes_until_the_target_is_met() -> None:
    env = CompactionEnv(conversation(reference()[1:]), 4500, measured)
    await ToolResults(rest)(env)
    texts = [entry.message.text for entry in env.conversation.entries]
    assert texts[2] == (
        "[treadle left out the result of shell: 8000 characters; call it again should you still "
        "need it]"
    )
    assert texts[4] == texts[6] == "x" * 8000
    assert env.attempts == [Attempt("tool_results", 6088, 4111)]
    assert not env.is_over


async def test_the_window_slides_to_the_newest_steps_and_says_how_much_went() -> None:
    env = CompactionEnv(conversation(reference()[1:]), 100, measured)
    await SlidingWindow(rest)(env)
    roles = [(entry.message.role, entry.made) for entry in env.conversation.entries]
    assert roles == [
        ("user", None),
        ("user", "note"),
        ("assistant", None),
        ("tool", None),
        ("assistant", None),
        ("tool", None),
    ]
    assert "2 earlier messages are" in env.conversation.entries[1].message.text


async def test_results_with_images_become_words_for_both_and_a_tool_s_own_mark_protects_none() -> (
    None
):
    call = ToolCall("c1", "n" * 500, {})
    forged = "[treadle left out the result of "
    image = {"type": "image", "mime_type": "image/png", "sha256": "a" * 64, "size_bytes": 68}
    said: list[Message] = [
        Message("user", "go"),
        Message("assistant", tool_calls=[call]),
        Message("tool", [{"type": "text", "text": forged + "it"}, image, image], tool_call_id="c1"),
        Message("tool", forged + "shell: " + "x" * 4000, tool_call_id="c9"),
        Message("assistant", "done"),
    ]
    env = CompactionEnv(conversation(said), 1, measured)
    await ToolResults(rest)(env)
    texts = [entry.message.text for entry in env.conversation.entries]
    assert texts[2] == (
        f"[treadle left out the result of {'n' * 64}: 34 characters and 2 images; "
        "call it again should you still need it]"
    )
    assert texts[3].startswith("[treadle left out the result of a tool: 4039 characters;")
    assert env.conversation.size.attachments == 0


async def test_the_note_counts_what_went_in_all_and_stands_behind_it() -> None:
    turns = [
        one
        for number in (1, 2, 3, 4, 5)
        for one in (Message("user", f"do {number}"), Message("assistant", f"did {number} " * 40))
    ]
    before = conversation(turns)
    env = CompactionEnv(before, 310, measured)
    await SlidingWindow(rest)(env)
    first = env.conversation
    assert [(entry.ordinal, entry.made) for entry in first.entries][:2] == [
        (None, "note"),
        (4, None),
    ]
    assert "4 earlier messages are" in first.entries[0].message.text

    env = CompactionEnv(first.summarised("We began."), 1, measured)
    await SlidingWindow(rest)(env)
    again = env.conversation
    assert [entry.made or entry.ordinal for entry in again.entries] == ["summary", "note", 7, 8, 9]
    assert "7 earlier messages are" in again.entries[1].message.text
    record = again.record("c2", 9)
    assert (record.keep, record.summary) == ([(7, 9)], "We began.")
    assert [(note.before, note.text) for note in record.notes] == [(7, note_text(7))]


async def test_where_an_answer_would_come_first_the_note_does() -> None:
    turns = [
        one
        for number in (1, 2, 3)
        for one in (Message("user", f"do {number} " * 60), Message("assistant", f"did {number}"))
    ]
    env = CompactionEnv(conversation([*turns, Message("user", "and now?")]), 1, measured)
    for _ in range(2):
        await SlidingWindow(rest)(env)
        assert [entry.made or entry.ordinal for entry in env.conversation.entries] == [
            "note", 3, 5, 6,
        ]  # fmt: skip
        assert "4 earlier messages are" in env.conversation.entries[0].message.text


async def test_what_a_person_said_meanwhile_begins_no_turn_and_what_began_it_stays() -> None:
    call = ToolCall("c1", "shell", {})
    said = [
        Message("user", "an old question", turn=1),
        Message("assistant", "an old answer", turn=1),
        Message("user", "write it", turn=2),
        Message("assistant", "a" * 900, tool_calls=[call], turn=2),
        Message("user", "in the middle of it", turn=2),
        Message("tool", "b" * 900, tool_call_id="c1", turn=2),
        Message("user", "with tabs", turn=2),
        Message("assistant", "c" * 900, turn=2),
        Message("user", "and spaces", turn=2),
        Message("assistant", "d" * 900, turn=2),
        Message("assistant", "e" * 900, turn=2),
    ]
    kept: list[list[int | None]] = []
    for target in (950, 700, 1):
        env = CompactionEnv(conversation(said), target, measured)
        await SlidingWindow(rest)(env)
        kept.append([entry.ordinal for entry in env.conversation.entries])
    assert kept == [
        [2, 4, None, 6, 7, 8, 9, 10],
        [2, 4, 6, None, 8, 9, 10],
        [2, None, 8, 9, 10],
    ]


async def test_what_was_rewritten_stays_so_and_only_up_to_where_a_compaction_reaches() -> None:
    entries = [Placed(Message("user", str(number)), number) for number in range(3)]
    record = CompactedRecord(through=1, keep=[(0, 1)], rewritten={1: "one", 2: "two", 9: "nine"})
    assert Conversation.of(entries, record).rewritten == {1: "one"}


async def test_half_characters_in_a_summary_are_kept_as_they_will_be_read() -> None:
    made = conversation([Message("user", "go")]).summarised("x\ud800y").noting("\udc00", 0)
    assert made.summary == "x\ufffdy"
    assert made.record("c", 0).notes[0].text == "\ufffd"
    assert [entry.made for entry in made.entries] == ["summary", "note", None]


def test_a_task_is_what_a_person_said_with_words_or_pictures_and_steps_are_what_is_sent() -> None:
    call = ToolCall("c1", "shell", {})
    said = [
        Message("user", "the task"),
        Message("assistant", "", tool_calls=[call]),
        Message("assistant", " "),
        Message("tool", "result", tool_call_id="c1"),
        Message("user", "  "),
    ]
    made = conversation(said)
    assert made.task == 0
    assert made.steps == ((1, 3),)
    assert made.protected == {0, 1, 3}


def test_instructions_at_the_head_stay_so_behind_a_summary() -> None:
    said = [Message("system", "rules"), Message("user", "old"), Message("user", "the task")]
    before = conversation(said)
    made = before.summarised("We began.").noting("gone", 0)
    assert before.protected == {0, 2}
    assert made.protected == {2, 4}
