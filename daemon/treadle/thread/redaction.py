"""Messages and compactions without secrets: what is kept of them, before it is kept.

Owns which parts of them are text that somebody said. `treadle.secrets` says what a secret is.
"""

from __future__ import annotations

import msgspec

from treadle.secrets import Secrets, known
from treadle.thread.message import Message, ToolCall, decode_line, encode_line
from treadle.thread.records import ApprovalRecord, CompactedRecord


def without_secrets(line: bytes) -> bytes:
    """Return a message's line with `[secret NAME]` in the place of each secret.

    The texts of a message are everything but its role, time and numbers, at any depth: content,
    reasoning, calls with their ids, names and arguments, and keys that this version does not know.

    Args:
        line: from `encode_line`; it comes back as it is where it holds no secret.

    Raises:
        msgspec.DecodeError: the line is no message.
    """
    secrets = known()
    if not secrets.may_be_in(line):
        return line
    return encode_line(_redacted(decode_line(line), secrets))


def compaction_without_secrets(record: CompactedRecord) -> CompactedRecord:
    """Return a compaction with `[secret NAME]` in the place of each secret in its texts.

    A model wrote them from messages that may be older than what is known to be a secret now.
    """
    secrets = known()
    return msgspec.structs.replace(
        record,
        rewritten={ordinal: secrets.redact(text) for ordinal, text in record.rewritten.items()},
        notes=[
            msgspec.structs.replace(note, text=secrets.redact(note.text)) for note in record.notes
        ],
        summary=secrets.redact(record.summary),
    )


def approval_without_secrets(record: ApprovalRecord) -> ApprovalRecord:
    """Return an approval whose call is named as the call's message names it."""
    secrets = known()
    return msgspec.structs.replace(
        record, call=secrets.redact(record.call), tool=secrets.redact(record.tool)
    )


def _redacted(message: Message, secrets: Secrets) -> Message:
    return msgspec.structs.replace(
        message,
        content=secrets.redact_all(message.content),
        tool_calls=[_redacted_call(call, secrets) for call in message.tool_calls],
        tool_call_id=secrets.redact(message.tool_call_id),
        reasoning=secrets.redact(message.reasoning),
        model=secrets.redact(message.model),
        extra=secrets.redact_all(message.extra),
    )


def _redacted_call(call: ToolCall, secrets: Secrets) -> ToolCall:
    return msgspec.structs.replace(
        call,
        id=secrets.redact(call.id),
        name=secrets.redact(call.name),
        arguments=secrets.redact_all(call.arguments),
        raw_arguments=secrets.redact(call.raw_arguments),
        extra=secrets.redact_all(call.extra),
    )
