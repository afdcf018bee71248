"""What a chat shows of a thread: from stored messages to items.

Owns what each kind of message becomes. Refuses to know how it is asked for, and how it looks.
"""

from __future__ import annotations

from typing import Any

from treadle.cli.chat.items import Called, Item, Note, Returned, Said, SpeechEnded, Spoke, Thought
from treadle.cli.chat.wording import count


def items_of(messages: list[Any], *, reasoning: bool = False) -> list[Item]:
    """Return what a thread's messages show.

    Args:
        messages: as `session/read` has them.
        reasoning: whether reasoning is shown in full, and not in a line.
    """
    names = {call["id"]: call["name"] for each in messages for call in each.get("toolCalls", ())}
    items: list[Item] = []
    for message in messages:
        text = _text(message["content"])
        if message["role"] == "user":
            items.append(Said(text))
        elif message["role"] == "tool":
            name = names.get(message.get("toolCallId"), "")
            items.append(Returned(name, not message.get("isError"), text))
        elif message["role"] == "assistant":
            if thought := message.get("reasoning"):
                items.append(Thought(thought, in_full=reasoning))
            if text:
                items += [Spoke(text), SpeechEnded()]
            items += [
                Called(call["name"], call["arguments"]) for call in message.get("toolCalls", ())
            ]
            if message.get("partial"):
                items.append(Note("cut short here"))
        if cut := message.get("truncated"):
            items.append(Note(f"{count(cut['bytes'], 'byte')} more: see treadle sessions export"))
    return items


def last_exchange(messages: list[Any]) -> list[Any]:
    """Return the messages from the last one that the person said."""
    said = [index for index, message in enumerate(messages) if message["role"] == "user"]
    return messages[said[-1] :] if said else messages


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text", "")) for block in content)
