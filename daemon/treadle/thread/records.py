"""The lines of a thread file that are no messages.

Each is an object with one key that names it: `thread` (the first line), `turn`, `compacted`,
`rewound`, `steered`, `set_aside` and `approval`.
Reading is lenient: what a newer build wrote is read as far as this one knows it.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from treadle.thread.message import Usage, decode_json, split_unknown

# What this Treadle writes. It reads any; a thread of a higher one it does not go on with.
FORMAT_VERSION = 1

StopReason: TypeAlias = Literal[
    "end_turn",
    "max_turns",
    "max_tokens",
    "refusal",
    "cancelled",
    "closed",
    "interrupted",
    "error",
]

# Turns and messages are counted up from the highest one, so a damaged number must not be beyond
# counting.
HIGHEST_TURN = 2**31
HIGHEST_COUNT = 2**53
# Numbers beyond it are read and not counted up from, so that what is written next can be read.
COUNTED_TURNS = 2**30

TurnNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_TURN)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_COUNT)]
# The first and the last ordinal of a range; both belong to it.
Range: TypeAlias = tuple[int, int]


class Forked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a thread was copied from: the pair, and the last ordinal that was copied."""

    agent: str = ""
    instance: str = ""
    at: int = -1


class Parent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pair in whose turn a sub-agent's thread was begun."""

    agent: str = ""
    instance: str = ""


class ThreadRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the first line says: the format's version and whose thread this is."""

    version: int
    agent: str = ""
    instance: str = ""
    created: str = ""
    forked: Forked | None = None
    parent: Parent | None = None


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start or the end of a turn.

    Args:
        number: from 1.
        event: `start` or `end`, as far as this version writes.
        at: when.
        stop_reason: how it ended: a `StopReason`, as far as this version writes.
        usage: what all its model calls cost, at its end.
        steps: how many model calls it made, at its end.
        key: at its start, the key under which its prompt runs once.
        asked: at its start, a digest of that prompt.
        messages: at its start, how many message lines there were.
    """

    number: TurnNumber
    event: str
    at: str = ""
    stop_reason: str | None = None
    usage: Usage | None = None
    steps: int = 0
    key: str = ""
    asked: str = ""
    messages: Count = 0


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in a view, before the message of an ordinal, for what was given up there."""

    before: int
    text: str


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """How large a conversation was before a compaction, and after it."""

    before: int = 0
    after: int = 0


class CompactedRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compaction: from here on, this stands in a view for everything up to `through`.

    It says all of it: what it does not repeat of an earlier compaction stands there no more.

    Args:
        id: its name, which its events carry too.
        at: when.
        through: the last ordinal that it replaces.
        keep: the ranges of ordinals up to there that stay.
        rewritten: texts that take the place of kept messages' own, by ordinal.
        notes: what stands between the kept messages.
        summary: what stands before them.
        tokens: how large the conversation was.
        usage: what its model calls cost.
        messages: how many message lines there were.
        resume: how a thread is opened without reading what was given up; see `resume.py`. The
            line then ends with a `seal`, without which nobody believes it.
    """

    id: str = ""
    at: str = ""
    through: int = -1
    keep: list[Range] = []
    rewritten: dict[int, str] = {}
    notes: list[Note] = []
    summary: str = ""
    tokens: Tokens | None = None
    usage: Usage | None = None
    messages: Count = 0
    # Looked into only by whoever resumes by it: a shape that is not known spoils no record.
    resume: Any = None


class RewoundRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """From here on, the conversation ends at the ordinal `to`; -1 empties it."""

    to: Annotated[int, msgspec.Meta(ge=-1, le=HIGHEST_COUNT)]
    at: str = ""
    messages: Count = 0


class SteeredRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that was accepted for a turn, in its plain form; its own line is to follow.

    Args:
        message: the message.
        at: when.
        turn: the number of the turn; 0 where it was accepted before that began.
        key: the key under which its prompt runs once.
        asked: a digest of that prompt.
    """

    message: dict[str, Any]
    at: str = ""
    turn: int = 0
    key: str = ""
    asked: str = ""


class SetAsideRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines above that cannot be read and lie in the `.damaged` file, by digest, with counts."""

    lines: dict[str, int] = {}
    at: str = ""


class ApprovalRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a person is to allow: first that it is asked, then what came of it.

    Args:
        call: the call's id.
        tool: the tool's name.
        digest: of the call's arguments as its message has them: SHA-256 of their JSON in UTF-8,
            with sorted keys and without spaces.
        outcome: `asked`, `allow_once`, `allow_session` or `deny`, as far as this version writes.
        at: when.
        by: who decided: the `client`, the `deadline`, `nobody` where nobody could be asked, or
            `withdrawn` where the turn was stopped first; nothing as long as it is asked.
    """

    call: str
    tool: str = ""
    digest: str = ""
    outcome: str = ""
    at: str = ""
    by: str = ""


Record: TypeAlias = (
    ThreadRecord
    | TurnRecord
    | CompactedRecord
    | RewoundRecord
    | SteeredRecord
    | SetAsideRecord
    | ApprovalRecord
)


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line without a role: exactly one of these is set in what we write."""

    thread: ThreadRecord | None = None
    turn: TurnRecord | None = None
    compacted: CompactedRecord | None = None
    rewound: RewoundRecord | None = None
    steered: SteeredRecord | None = None
    set_aside: SetAsideRecord | None = None
    approval: ApprovalRecord | None = None


# The outcomes by which a call may run.
ALLOWING = ("allow_once", "allow_session")

# How the line of a compaction begins: a thread is resumed from the last one.
COMPACTED_START = b'{"compacted"'
# How the line of a turn begins, and that of an accepted message: keys are looked for in these.
TURN_START = b'{"turn"'
STEERED_START = b'{"steered"'
# How the line of an approval begins: whoever shows a thread looks for these.
APPROVAL_START = b'{"approval"'


def encode_record(record: Record) -> bytes:
    """Encode a record as its JSON line, without the line end."""
    line = _encoder.encode({_NAMES[type(record)]: record})
    has_hints = isinstance(record, CompactedRecord) and record.resume is not None
    return sealed(line) if has_hints else line


def sealed(line: bytes) -> bytes:
    """Return a record's line, without its line end, with a digest of it as its last member."""
    return b'%b,"seal":"%b"}}' % (line[:-2], _seal_of(line[:-2]))


def is_sealed(line: bytes) -> bool:
    """Tell whether a record's line, without its line end, is the one that was sealed."""
    said, _, seal = line.rpartition(b',"seal":"')
    return bool(said) and seal == _seal_of(said) + b'"}}'


def decode_record(line: bytes) -> RecordLine:
    """Decode a line without a role; keys that this version does not know are ignored.

    Raises:
        msgspec.DecodeError: the line is no JSON, or a record of the wrong shape.
        RecursionError: it is nested beyond all reason.
    """
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        plain = decode_json(line)
    try:
        # Usage keeps unknown keys where messages are concerned, so here they are in its way.
        return msgspec.convert(_without_unknown_usage(plain), RecordLine, str_keys=True)
    except msgspec.ValidationError:
        if version := _newer_version(plain):
            return RecordLine(thread=ThreadRecord(version))
        raise


# Half of SHA-256, for damage and an editor's hand, not for forgers.
SEAL_CHARACTERS = 32

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RecordLine)
_NAMES: dict[type[msgspec.Struct], str] = {
    ThreadRecord: "thread",
    TurnRecord: "turn",
    CompactedRecord: "compacted",
    RewoundRecord: "rewound",
    SteeredRecord: "steered",
    SetAsideRecord: "set_aside",
    ApprovalRecord: "approval",
}


def _seal_of(line: bytes) -> bytes:
    return hashlib.sha256(line).hexdigest()[:SEAL_CHARACTERS].encode()


def _without_unknown_usage(plain: Any) -> Any:
    for name in ("turn", "compacted"):
        record = plain.get(name) if isinstance(plain, dict) else None
        if isinstance(record, dict):
            record["usage"] = split_unknown(Usage, record.get("usage"))
    return plain


def _newer_version(plain: Any) -> int | None:
    """Tell a newer version by its number alone: whatever else its header says, it is not ours."""
    header = plain.get("thread") if isinstance(plain, dict) else None
    version = header.get("version") if isinstance(header, dict) else None
    return version if isinstance(version, int) and version > FORMAT_VERSION else None
