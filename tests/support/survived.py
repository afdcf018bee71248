"""What a thread's file has to hold after a kill, and that what it holds can be sent.

Owns what was promised by the moment of a kill. Refuses to know how the thread came about.
"""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from support.strict_model import what_is_wrong
from treadle.thread.message import Message
from treadle.thread.thread import Thread


@dataclass(frozen=True)
class Killed:
    """The file as a kill leaves it, and what was promised by then.

    Args:
        content: the file's bytes.
        completed: the ids of the compactions that were told to be completed.
        ended: the numbers of the turns that were told to have ended.
    """

    content: bytes
    completed: Set[str]
    ended: Set[int]


def survived(killed: Killed, path: Path) -> None:
    """See that what a kill left holds all that was told by then, and loads from `path`."""
    path.write_bytes(killed.content)
    lines = [json.loads(line) for line in killed.content.splitlines()]
    assert killed.completed <= {line["compacted"]["id"] for line in lines if "compacted" in line}
    turns = [line["turn"] for line in lines if isinstance(line.get("turn"), dict)]
    assert killed.ended <= {turn["number"] for turn in turns if turn["event"] == "end"}
    loads(path)


def loads(path: Path) -> None:
    """See that a thread opens without loss, and with a next prompt is what a model takes."""
    is_compacted = b'\n{"compacted"' in path.read_bytes()
    thread = Thread.open(path)
    try:
        assert (thread.report.torn_bytes, thread.report.quarantined_lines) == (0, 0)
        assert (thread.compaction is not None) == is_compacted
        assert wrong_with([*thread.view(), Message("user", "Next")]) == ""
    finally:
        thread.close()


def wrong_with(messages: Sequence[Message]) -> str:
    """Tell what a strict provider would refuse of a conversation; nothing where all is well."""
    return what_is_wrong(
        [
            {
                "role": one.role,
                "content": one.content,
                "tool_calls": [{"id": call.id} for call in one.tool_calls],
                "tool_call_id": one.tool_call_id,
            }
            for one in messages
        ]
    )
