"""Threads with something said in them, and what of them a test looks at."""

from __future__ import annotations

from treadle.thread.message import Message, Usage
from treadle.thread.reading import Reading
from treadle.thread.thread import Thread


async def talk(thread: Thread, turns: int, first: int = 0) -> None:
    """Have so many turns of a question and an answer, numbered from `first`."""
    for number in range(first, first + turns):
        thread.start_turn()
        await thread.append(Message("user", f"ask {number}"))
        await thread.append(Message("assistant", f"answer {number}"))
        await thread.end_turn("end_turn", Usage(), 1)


def texts(messages: list[Message]) -> list[str]:
    """Return what messages say."""
    return [message.text for message in messages]


def again(thread: Thread) -> Thread:
    """Close a thread and open it anew."""
    assert thread.path is not None
    thread.close()
    return Thread.open(thread.path)


def marks(reading: Reading, start: int = 0, limit: int = 1000) -> list[tuple[int | None, str]]:
    """Return the ordinals of a page, and what became of each message."""
    page = reading.page(start, limit)
    return [
        (one.ordinal, "rewound" if one.rewound else "compacted" if one.compacted else "")
        for one in page.messages
    ]
