"""Messages that were accepted for a turn and have no line of their own yet.

Owns what may be accepted, and which line is an accepted message's own.
"""

from __future__ import annotations

import msgspec

from treadle.thread.message import Message, decode_line, encode_line, from_plain
from treadle.thread.records import SteeredRecord
from treadle.thread.redaction import without_secrets


def accepted(record: SteeredRecord) -> Message:
    """Return the message that was accepted.

    Raises:
        msgspec.ValidationError: it is none, or none that could be told by its own line.
    """
    message = from_plain(record.message)
    if message.role != "user" or not message.at:
        raise msgspec.ValidationError("what was accepted is a user's message with its time")
    return message


def settle(steered: list[SteeredRecord], message: Message) -> None:
    """Take out the accepted message whose own line this is, if it is one's."""
    for index, record in enumerate(steered):
        if _is_said(accepted(record), message):
            del steered[index]
            return


def _is_said(accepted: Message, message: Message) -> bool:
    if accepted.at != message.at:
        return False
    # What was no secret when it was accepted may have become one.
    kept = decode_line(without_secrets(encode_line(accepted)))
    return message.content in (accepted.content, kept.content)
