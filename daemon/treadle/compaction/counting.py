"""How large a conversation is, in tokens: an approximation that is the same everywhere.

A message is one line, `role: text`; a call in it `name({"compact":"arguments"}) -> id`; a tool's
result `tool: text (answering id)`. Lines are joined by line ends; four characters are a token, and
each message costs four more (design: semantics, "Compaction"). Owns that rule, and how it is set
right by what a tokenizer counts. What a model thought aloud is not sent back, and not counted.
Refuses to know windows and what becomes of the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from treadle.models.completion import ToolSpec
from treadle.models.counting import CountText
from treadle.thread.message import Message, ToolCall, clean

CHARACTERS_OF_TOKEN = 4
# What a provider puts around each message.
TOKENS_OF_MESSAGE = 4

# What vision models charge for an image of ordinary size; a figure that is too small is set right
# by the next usage that the provider reports.
TOKENS_OF_ATTACHMENT = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """The size of some messages.

    Args:
        characters: of their lines, without what joins them.
        messages: how many they are.
        attachments: how many images, recordings or files they hold.
        more: how many tokens more than the approximation says a tokenizer counted; below 0 for
            fewer, and 0 where none did.
    """

    characters: int = 0
    messages: int = 0
    attachments: int = 0
    more: int = 0

    @property
    def tokens(self) -> int:
        """The approximation."""
        joined = self.characters + max(0, self.messages - 1)
        return (
            joined // CHARACTERS_OF_TOKEN
            + TOKENS_OF_MESSAGE * self.messages
            + TOKENS_OF_ATTACHMENT * self.attachments
        )

    @property
    def counted(self) -> int:
        """The approximation, set right by what a tokenizer counted."""
        return self.tokens + self.more

    def __add__(self, other: Size) -> Size:
        return Size(
            self.characters + other.characters,
            self.messages + other.messages,
            self.attachments + other.attachments,
            self.more + other.more,
        )


NOTHING = Size()


def size_of(messages: Iterable[Message]) -> Size:
    """Measure messages."""
    characters = count = attachments = 0
    for message in messages:
        characters += _characters_of(message)
        count += 1
        attachments += attachments_of(message)
    return Size(characters, count, attachments)


def total(sizes: Sequence[Size]) -> Size:
    """Add up sizes."""
    return Size(
        sum([size.characters for size in sizes]),
        sum([size.messages for size in sizes]),
        sum([size.attachments for size in sizes]),
        sum([size.more for size in sizes]),
    )


def counted_by(count: CountText, message: Message) -> Size:
    """Measure a message, and count its text by a tokenizer."""
    size = size_of((message,))
    found = count(line_of(message))
    approximate = size.characters // CHARACTERS_OF_TOKEN
    return size if found is None else replace(size, more=found - approximate)


def tokens_of(messages: Iterable[Message]) -> int:
    """Return the approximation for messages."""
    return size_of(messages).tokens


def tokens_of_tools(tools: Sequence[ToolSpec]) -> int:
    """Return the approximation for what a model is told of tools: their JSON."""
    if not tools:
        return 0
    told = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]
    return len(_json(told)) // CHARACTERS_OF_TOKEN


def line_of(message: Message) -> str:
    """Return a message as the line that is counted, and that a summariser reads."""
    said = [message.text] if message.text else []
    said += [_call(call) for call in message.tool_calls]
    if message.role == "tool":
        said.append(f"(answering {message.tool_call_id})")
    return f"{message.role}: {' '.join(said)}"


def attachments_of(message: Message) -> int:
    """Return how many things that are not text a message holds."""
    if isinstance(message.content, str):
        return 0
    return sum(block.get("type") != "text" for block in message.content)


def _characters_of(message: Message) -> int:
    """Return how long the line is, without making it where that would copy a text for nothing."""
    if message.tool_calls or not isinstance(message.content, str):
        return len(line_of(message))
    length = len(message.role) + len(": ") + len(message.content)
    if message.role != "tool":
        return length
    space = 1 if message.content else 0
    return length + space + len("(answering )") + len(message.tool_call_id)


def _call(call: ToolCall) -> str:
    arguments = call.raw_arguments or _json(call.arguments)
    return f"{call.name}({arguments}) -> {call.id}"


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):
        return msgspec.json.encode(clean(value)).decode()
