"""`treadle sessions show`: a stored thread, for a person to read.

Owns how messages, turns and what became of them stand below each other. What is shown comes by
the protocol, so that the thread of a session that is open anywhere is shown as it stands.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from treadle.cli.client import local_client
from treadle.cli.options import (
    DEFAULT_AGENT,
    DEFAULT_INSTANCE,
    AgentOption,
    InstanceOption,
    JsonOption,
)
from treadle.cli.streams import say, to_json
from treadle.folders import find_folders
from treadle.thread.approvals import approvals_in
from treadle.thread.paths import thread_path
from treadle.thread.records import ApprovalRecord
from treadle.thread.unsaved import waiting_for

Message: TypeAlias = dict[str, Any]

# The most that one page of the protocol holds.
PAGE_SIZE = 1000

INDENT = "    "


def show(
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    as_json: JsonOption = False,
) -> None:
    """Show all that was said in a session, with the turns, the times and the tools' calls.

    What was rewound is marked, and what a compaction has given up, with what the model sees in
    its place.
    """
    messages, made = asyncio.run(_read({"agent": agent, "instance": instance}))
    if as_json:
        print(to_json(messages))
        return
    approvals: dict[str, list[str]] = {}
    path = thread_path(find_folders().data, agent, instance)
    for record in approvals_in(path):
        approvals.setdefault(record.call, []).append(_approval(record))
    for line in _lines(messages, made, approvals):
        say(line)
    for waiting in waiting_for(path):
        say(f"-- not here: the last {waiting.counted}, in {waiting.place} until it is opened")


async def _read(address: dict[str, str]) -> tuple[list[Message], list[Message]]:
    """Return the thread's messages, and what a compaction made for the model."""
    params = {**address, "limit": PAGE_SIZE}
    async with local_client() as client:
        pages = client.pages("session/read", params)
        messages = [message async for page in pages for message in page["messages"]]
        if not any(message.get("compacted") for message in messages):
            return messages, []
        pages = client.pages("session/read", {**params, "view": "model"})
        view = [message async for page in pages for message in page["messages"]]
        return messages, [message for message in view if message.get("made")]


def _approval(record: ApprovalRecord) -> str:
    """Show in a line that a person was asked about a call, or what came of it."""
    by = f"by {record.by}" if record.by else ""
    told = (record.at, record.tool, record.call, record.outcome, by)
    return f"-- permission: {'  '.join(filter(None, told))}"


def _lines(
    messages: list[Message], made: list[Message], approvals: dict[str, list[str]]
) -> Iterator[str]:
    """Yield what is shown, piece by piece; approvals stand where their calls were made."""
    given_up = [message["ordinal"] for message in messages if message.get("compacted")]
    turn, held = 0, -1
    was_rewound = False
    for message in messages:
        is_rewound = bool(message.get("rewound"))
        if was_rewound and not is_rewound:
            yield f"-- rewound: the conversation went on behind #{held}\n"
        if message.get("turn", 0) != turn:
            turn = message.get("turn", 0)
            yield f"== turn {turn}\n" if turn else "== in no turn\n"
        yield _said(message)
        for call in message.get("toolCalls", ()):
            if told := approvals.pop(call["id"], None):
                yield "\n".join([*told, ""])
        was_rewound = is_rewound
        held = held if is_rewound else message["ordinal"]
        if given_up and message["ordinal"] == given_up[-1]:
            yield _compaction(made)
    if was_rewound:
        yield f"-- rewound: the conversation ends with #{held}\n"


def _said(message: Message) -> str:
    """Show one message: who and when, then what, indented."""
    marks = [mark for mark in ("rewound", "compacted", "partial", "truncated") if message.get(mark)]
    marks += ["failed"] if message.get("isError") else []
    told = [f"#{message['ordinal']}", message.get("at", ""), message["role"]]
    told += [message.get("model", ""), message.get("toolCallId", "")]
    told += [f"({', '.join(marks)})"] if marks else []
    parts = [f"({message['reasoning']})"] if message.get("reasoning") else []
    parts += [text for text in _texts(message["content"]) if text]
    parts += [
        f"-> {call['name']} {json.dumps(call['arguments'], ensure_ascii=False)} {call['id']}"
        for call in message.get("toolCalls", ())
    ]
    return "\n".join(["  ".join(filter(None, told)), *map(_indented, parts), ""])


def _texts(content: str | list[dict[str, Any]]) -> list[str]:
    """Return a message's content as texts; what has bytes is named by the file that has them."""
    if isinstance(content, str):
        return [content]
    return [
        str(block["text"])
        if "text" in block
        else f"[{block.get('type')} {block.get('mimeType', '')} {block.get('path', 'lost')}]"
        for block in content
    ]


def _compaction(made: list[Message]) -> str:
    told = "-- compacted: in the place of what was given up the model sees:"
    parts = [text for message in made for text in _texts(message["content"])]
    return "\n".join([told if parts else "-- compacted", *map(_indented, parts), ""])


def _indented(text: str) -> str:
    return "\n".join(INDENT + line for line in text.split("\n"))
