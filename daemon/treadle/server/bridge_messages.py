"""The bridge's part for what was said: messages and what they cost."""

from __future__ import annotations

from pathlib import Path

from treadle.protocol.base import WireUsage
from treadle.protocol.sessions import WireMessage, WireToolCall
from treadle.server.blocks import shown_content
from treadle.thread.history import Placed
from treadle.thread.message import Usage


def wire_message(placed: Placed, thread: Path) -> WireMessage:
    """Show a message where it stands, in a thread or in a model's view.

    Args:
        placed: the message.
        thread: the thread's file; those that the message refers to are looked for, which blocks.
    """
    message = placed.message
    return WireMessage(
        ordinal=placed.ordinal,
        made=placed.made,
        rewound=placed.rewound,
        compacted=placed.compacted,
        role=message.role,
        content=shown_content(message.content, thread),
        tool_calls=[
            WireToolCall(id=call.id, name=call.name, arguments=call.arguments)
            for call in message.tool_calls
        ],
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
        at=message.at,
        turn=message.turn,
        model=message.model,
        usage=wire_usage(message.usage) if message.usage else None,
        partial=message.partial,
        is_error=message.is_error,
    )


def wire_usage(usage: Usage) -> WireUsage:
    """Show what a call or a turn cost."""
    return WireUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )
