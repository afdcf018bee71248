"""The methods of a session: their params and results."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from treadle.protocol.base import Address, ProgressToken, WireStruct, WireUsage

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
State: TypeAlias = Literal["idle", "running", "waiting", "closed"]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
OrdinalOrNone: TypeAlias = Annotated[int, msgspec.Meta(ge=-1)]
"""An ordinal, or -1 for none."""


class WireOptions(WireStruct, forbid_unknown_fields=True):
    """How a session narrows what its agent has, fixed when the pair opens; nothing may widen it."""

    cwd: str | None = None
    model: str | None = None
    tools: list[str] | None = None
    permissions: Literal["read_only", "ask", "auto"] | None = None
    max_turns: Positive | None = None


class ThreadInfo(WireStruct):
    """The thread behind a session; no path where it is kept in memory only."""

    path: str | None = None
    messages: int
    turns: int
    updated_at: str | None = None


class ResumeReport(WireStruct):
    """What loading the thread's file met and mended."""

    quarantined_lines: int
    torn_bytes: int
    repaired_calls: int
    interrupted_turn: int | None = None


class ResumeParams(Address):
    """Find or create a session."""

    options: WireOptions | None = None


class ResumedServer(WireStruct):
    """An MCP server of the session, and what it does; `mcp/list` tells more."""

    server: str
    state: Literal["starting", "ready", "failed", "restarting", "stopped"]


class ResumeResult(WireStruct):
    """The session, open; `created` says that its thread is new.

    `allowed` is what a person has allowed for as long as the session is open; `cwd` is where its
    tools work, if that is a folder.
    """

    created: bool
    state: State
    thread: ThreadInfo
    report: ResumeReport
    mcp: list[ResumedServer]
    allowed: list[str] = []
    cwd: str | None = None


class TextBlock(WireStruct, tag_field="type", tag="text"):
    """Text, in MCP's shape of a content block."""

    text: str


class ImageBlock(WireStruct, tag_field="type", tag="image"):
    """An image, in MCP's shape: PNG, JPEG, GIF or WebP, its bytes as base64, 20 MiB at most."""

    data: str
    mime_type: str


class AudioBlock(WireStruct, tag_field="type", tag="audio"):
    """A recording, in MCP's shape: WAV, MP3, Ogg or FLAC, its bytes as base64, 20 MiB at most."""

    data: str
    mime_type: str


class ResourceContents(WireStruct):
    """What a resource holds, as the client read it: either its text or its bytes as base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class ResourceBlock(WireStruct, tag_field="type", tag="resource"):
    """A resource that the client embeds, in MCP's shape."""

    resource: ResourceContents


class ResourceLinkBlock(WireStruct, tag_field="type", tag="resource_link"):
    """A resource that the client only names, in MCP's shape."""

    uri: str
    name: str = ""


PromptBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceBlock | ResourceLinkBlock


class PromptParams(Address):
    """Say something to the agent; a pair that is not open is resumed first.

    `max_turns` bounds the model calls of this prompt. `when_busy` says whether to wait behind a
    running turn, to be refused, or to enter it: the reply is then the outcome of that turn, whose
    own `max_turns` stands. The same prompt under the same `key` runs once, also across a restart:
    whoever repeats it gets the first one's outcome. Under the tokens the turn is also told as
    `$/progress`; with a `partial_result_token` the result's `text` is empty.
    """

    prompt: str | list[PromptBlock]
    options: WireOptions | None = None
    max_turns: Positive | None = None
    when_busy: Literal["queue", "reject", "steer"] = "queue"
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    work_done_token: ProgressToken | None = None
    partial_result_token: ProgressToken | None = None


class PromptResult(WireStruct):
    """The prompt's one outcome.

    `messages` are the ordinals of its first and last message; a prompt that ended before its
    turn began has neither `turn` nor `messages`.
    """

    turn: int | None = None
    text: str
    stop_reason: StopReason
    usage: WireUsage
    steps: int
    messages: tuple[int, int] | None = None


class SteerParams(Address):
    """Say something into the running turn, or begin one; `expected_turn` allows only that one."""

    text: str
    expected_turn: Positive | None = None


class SteerResult(WireStruct):
    """Whether the text entered a turn or began one; exactly one of the two is there.

    `turn` is absent as long as that turn has no number.
    """

    injected: bool = False
    started_turn: bool = False
    turn: int | None = None


class CancelParams(Address):
    """Stop the running turn, or only the turn that is named."""

    turn: int | None = None


class CancelResult(WireStruct):
    """Whether a turn was stopped, and which."""

    cancelled: bool
    turn: int | None = None


class CloseParams(Address):
    """Give back what the session holds; its thread stays."""


class ReleasedServer(WireStruct):
    """An MCP server that was stopped, and how it ended.

    `pid` and `exit` are null for one that is no process of ours; `exit` is negative for a signal,
    null too where it could not be ended. `by` says what ended it: the end of its input, or what
    had to follow.
    """

    server: str
    pid: int | None
    exit: int | None
    by: Literal["exit", "end_of_input", "terminate", "kill"]


class ReleasedProcess(WireStruct):
    """A background job that was stopped, with all it had started, and how it ended.

    `command` is its beginning, on one line; `exit` is negative for a signal, null where it could
    not be stopped.
    """

    pid: int
    command: str
    exit: int | None


class Released(WireStruct):
    """What a close gave back."""

    servers: list[ReleasedServer]
    processes: list[ReleasedProcess]


class CloseResult(WireStruct):
    """Whether the session was open, and what it gave back."""

    closed: bool
    released: Released


class ListParams(WireStruct):
    """Which sessions to list, newest first: `limit` of them, after `cursor`.

    With `tasks` also those of sub-agents, whose instances are `<their parent's>/task-<number>`.
    """

    agent: str | None = None
    cursor: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    tasks: bool = False


class SessionInfo(Address):
    """A session that is open or stored; `held_by` is the process that writes its thread."""

    state: State
    messages: int
    updated_at: str | None = None
    held_by: int | None = None


class ListResult(WireStruct):
    """One page; `next_cursor` is there while more follow."""

    sessions: list[SessionInfo]
    next_cursor: str | None = None


class ReadParams(Address):
    """Which messages to read, oldest first: `limit` of them, after `cursor`.

    Without a cursor, `last` has them begin so many before the end.
    """

    cursor: str | None = None
    last: Positive | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    view: Literal["full", "model"] = "full"


class WireToolCall(WireStruct):
    """A call that the model asked for."""

    id: str
    name: str
    arguments: dict[str, Any]


class Truncated(WireStruct):
    """What a reply leaves out of a message that no reply could carry.

    `bytes` is how much of its JSON that is. The whole is in the thread's file, `path`, unless the
    thread is in memory only; `treadle sessions export` writes it too.
    """

    bytes: int
    path: str | None = None


class WireMessage(WireStruct):
    """A message of a thread.

    `ordinal` is its place among the thread's messages, from 0, never used again; a message
    that stands only in the model's view has none, and `made` says what a compaction made it for.
    `rewound` marks what the conversation holds no more, `compacted` what it holds and the model
    sees no more, or not as it was.
    `content` is text, or blocks for what is not text: an `image`, `audio` or `resource` block
    never holds its bytes, it says `mimeType`, `sha256`, `sizeBytes`, a resource its `uri`, and
    `path`, the file where the bytes lie, unless they are in memory only or lost.
    `truncated` is there where the message is longer than 16 MiB: texts end early then, and lists
    and objects lack their last members.
    """

    ordinal: int | None = None
    made: Literal["summary", "note"] | None = None
    rewound: bool = False
    compacted: bool = False
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]]
    tool_calls: list[WireToolCall] = []
    tool_call_id: str = ""
    reasoning: str = ""
    at: str = ""
    turn: int = 0
    model: str = ""
    usage: WireUsage | None = None
    partial: bool = False
    is_error: bool = False
    truncated: Truncated | None = None


class Elsewhere(WireStruct):
    """The last lines of a thread, which a failing disk kept out of its file.

    They lie in `path`, and come back when the session is opened and its file can be written.
    """

    path: str
    lines: int


class ReadResult(WireStruct):
    """One page; `next_cursor` is there while more follow.

    A page of more than 4 MiB ends before its `limit`, with one message at least. What lies
    `elsewhere` is in no page.
    """

    messages: list[WireMessage]
    next_cursor: str | None = None
    elsewhere: list[Elsewhere] = []


class ForkParams(Address):
    """Begin the session `into` of the same agent as a copy of this one's conversation.

    The copy ends with the message `at`, -1 being an empty one; else where the conversation ends,
    or, while a turn runs, with its last finished step. The result is that of resuming the copy.
    """

    into: str
    at: OrdinalOrNone | None = None


class RewindParams(Address):
    """End the conversation with the message `to`; -1 empties it. Nothing is deleted."""

    to: OrdinalOrNone


class RewindResult(WireStruct):
    """How many messages the conversation holds now."""

    messages: int


class DeleteParams(Address):
    """Close the session and delete its thread, with everything that lies beside it."""


class DeleteResult(WireStruct):
    """Whether there was anything to delete."""

    deleted: bool
