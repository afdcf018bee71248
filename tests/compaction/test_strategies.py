"""What goes first, and what never does: the strategies that need no model."""

from __future__ import annotations

from compaction.test_counting import reference
from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import CompactionEnv, rest
from treadle.compaction.sliding_window import SlidingWindow
from treadle.compaction.tool_results import ToolResults
from treadle.thread.history import Placed
from treadle.thread.message import Message


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
    assert texts[2].startswith("[treadle left out the result of shell: 8000 characters")
    assert texts[4] == texts[6] == "x" * 8000
    assert env.tokens <= 4500 and not env.is_over


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
