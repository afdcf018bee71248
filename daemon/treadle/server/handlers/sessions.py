"""The methods of a session: from decoded params through the runtime to a result.

Owns paging. Refuses to know how a session does what it is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from treadle.agents.options import SessionOptions
from treadle.errors import InvalidParams
from treadle.protocol.sessions import (
    CancelParams,
    CancelResult,
    CloseParams,
    CloseResult,
    Elsewhere,
    ListParams,
    ListResult,
    PromptBlock,
    PromptParams,
    PromptResult,
    ReadParams,
    ReadResult,
    ResourceBlock,
    ResourceContents,
    ResourceLinkBlock,
    ResumeParams,
    ResumeResult,
    SteerParams,
    SteerResult,
    WireMessage,
)
from treadle.runtime.holding import Closed
from treadle.runtime.prompt import Prompt
from treadle.server.blocks import prompt_of
from treadle.server.bridge import (
    close_result,
    options_of,
    pair_of,
    prompt_result,
    resume_result,
    session_info,
    steer_result,
)
from treadle.server.bridge_messages import wire_message
from treadle.server.cutting import cut
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer
from treadle.thread.history import Placed
from treadle.thread.paths import thread_path
from treadle.thread.reading import Reading, ViewPlace
from treadle.thread.unsaved import waiting_for

# A larger document is only named: it would fill the model's window, and a tool can read parts.
MAX_DOCUMENT_CHARACTERS = 200_000


@handles("session/resume")
async def resume(params: ResumeParams, peer: Peer) -> ResumeResult:
    """Find or create the session and open it."""
    session = peer.session(pair_of(params))
    thread, created = await session.resume(options_of(params.options), peer.default_cwd)
    return resume_result(
        thread,
        session.state,
        created=created,
        servers=session.mcp_statuses(),
        allowed=session.allowed,
        cwd=session.cwd,
    )


@handles("session/prompt")
async def prompt(params: PromptParams, peer: Peer) -> PromptResult:
    """Run one turn when its time comes.

    Raises:
        InvalidParams: the prompt says nothing, its key is another prompt's, or a token is in use.
    """
    return await run_prompt(params, peer)


async def run_prompt(
    params: PromptParams, peer: Peer, agreed: Callable[[], Awaitable[bool]] | None = None
) -> PromptResult:
    """Run one turn and show its progress.

    Args:
        params: the prompt.
        peer: whose it is.
        agreed: asks the client to take the prompt's work-done token, where that is ours.

    Raises:
        InvalidParams: as `prompt` does.
    """
    pair = pair_of(params)
    # An editor may still be loading what it has open: prompts keep their order meanwhile.
    async with peer.arrival:
        said = await prompt_of(await _with_open_documents(params.prompt, peer))
    with peer.progress.shown(
        work_done=params.work_done_token,
        partial=params.partial_result_token,
        title=" · ".join(pair),
        stop=lambda: peer.session(pair).stop_prompt(wanted),
        agreed=agreed,
    ) as progress:
        wanted = Prompt(
            messages=said,
            options=options_of(params.options),
            default_cwd=peer.default_cwd,
            max_turns=params.max_turns,
            when_busy=params.when_busy,
            key=params.key,
            client=peer.person,
            buffers=peer.buffers,
            on_event=progress.take if progress else None,
        )
        result = prompt_result(await peer.session(pair).prompt(wanted))
        # What was sent in parts is not sent again: LSP 3.17, "Partial Result Progress". A prompt
        # that entered a running turn may have heard only the end of it.
        if progress is not None and progress.has_sent(result.text):
            return msgspec.structs.replace(result, text="")
    return result


async def _with_open_documents(
    said: str | list[PromptBlock], peer: Peer
) -> str | list[PromptBlock]:
    """Give a link to a document that is open in the editor the text that it shows there."""
    if isinstance(said, str):
        return said
    return [await _with_text(block, peer) for block in said]


async def _with_text(block: PromptBlock, peer: Peer) -> PromptBlock:
    if not isinstance(block, ResourceLinkBlock):
        return block
    text = await peer.editor.text_of(block.uri)
    if text is None or len(text) > MAX_DOCUMENT_CHARACTERS:
        return block
    return ResourceBlock(resource=ResourceContents(uri=block.uri, text=text))


@handles("session/steer")
async def steer(params: SteerParams, peer: Peer) -> SteerResult:
    """Say something into the running turn, or begin one; answered at once.

    Raises:
        InvalidParams: the text says nothing.
    """
    said = Prompt(
        messages=await prompt_of(params.text, path="text"),
        options=SessionOptions(),
        default_cwd=peer.default_cwd,
        client=peer.person,
        buffers=peer.buffers,
    )
    return steer_result(await peer.session(pair_of(params)).steer(said, params.expected_turn))


@handles("session/cancel")
async def cancel(params: CancelParams, peer: Peer) -> CancelResult:
    """Stop the running turn; never an error."""
    session = peer.runtime.find(pair_of(params))
    stopped = await session.cancel(params.turn) if session else None
    return CancelResult(cancelled=stopped is not None, turn=stopped or None)


@handles("session/close")
async def close(params: CloseParams, peer: Peer) -> CloseResult:
    """Give back what the session holds."""
    session = peer.runtime.find(pair_of(params))
    return close_result(await session.close() if session else Closed(was_open=False))


@handles("session/list")
async def list_sessions(params: ListParams, peer: Peer) -> ListResult:
    """List one page of the sessions, newest first."""
    start = _position(params.cursor)
    summaries, has_more = await peer.runtime.summaries(
        params.agent, start, params.limit, tasks=params.tasks
    )
    return ListResult(
        sessions=[session_info(summary) for summary in summaries],
        next_cursor=str(start + params.limit) if has_more else None,
    )


@handles("session/read")
async def read(params: ReadParams, peer: Peer) -> ReadResult:
    """Read one page of a thread, oldest first.

    A cursor names the message that comes next, or in a model's view the one before that, so that
    it stays right when the thread grows, or is rewound or compacted, between two pages.

    Raises:
        InvalidParams: the cursor is none that a page of this view gave.
    """
    if params.cursor is not None:
        # Whoever turns the page says again what the first one was asked with.
        params = msgspec.structs.replace(params, last=None)
    page = (
        partial(_view_page, params, _view_place(params.cursor))
        if params.view == "model"
        else partial(_full_page, params, _position(params.cursor))
    )
    pair = pair_of(params)
    thread = thread_path(peer.runtime.services.folders.data, *pair)
    # Whoever asks for many pages at once gets each when it has taken the one before.
    async with peer.pages:
        reading = await peer.runtime.read(pair)
        result = await asyncio.to_thread(lambda: _with_elsewhere(page(reading, thread), thread))
        await peer.until_it_reads()
    return result


def _with_elsewhere(page: ReadResult, thread: Path) -> ReadResult:
    """Add what no page can show, because it does not lie in the thread's file."""
    waiting = [Elsewhere(path=str(one.place), lines=one.lines) for one in waiting_for(thread)]
    return msgspec.structs.replace(page, elsewhere=waiting) if waiting else page


def _full_page(params: ReadParams, start: int, reading: Reading, thread: Path) -> ReadResult:
    page = (
        reading.page(start, params.limit)
        if params.last is None
        else reading.last_page(params.last, params.limit)
    )
    return ReadResult(
        messages=_shown(page.messages, thread),
        next_cursor=None if page.next_start is None else str(page.next_start),
    )


def _view_page(params: ReadParams, start: ViewPlace, reading: Reading, thread: Path) -> ReadResult:
    page = (
        reading.view_page(start, params.limit)
        if params.last is None
        else reading.last_view_page(params.last, params.limit)
    )
    behind = page.next_start
    return ReadResult(
        messages=_shown(page.messages, thread),
        # Counted from 1, because a cursor has no sign.
        next_cursor=None if behind is None else f"{behind.ordinal + 1}.{behind.more}",
    )


def _shown(messages: Sequence[Placed], thread: Path) -> list[WireMessage]:
    """Show a page's messages; it looks for the files that they refer to."""
    shown = [wire_message(one, thread) for one in messages]
    # A page is bounded, but for a message that has one to itself.
    return [cut(one, thread) for one in shown] if len(shown) == 1 else shown


# No thread has as many messages, and `int` refuses texts that are far longer.
_CURSOR_DIGITS = 18


def _view_place(cursor: str | None) -> ViewPlace:
    """Return where a page of a model's view starts.

    Raises:
        InvalidParams: this is no cursor that such a page gave.
    """
    if cursor is None:
        return ViewPlace()
    ordinal, dot, more = cursor.partition(".")
    if not dot:
        raise _strange_cursor()
    return ViewPlace(_position(ordinal) - 1, _position(more))


def _strange_cursor() -> InvalidParams:
    return InvalidParams(
        "cursor is not one that an earlier page gave; leave it out to begin anew", path="cursor"
    )


def _position(cursor: str | None) -> int:
    """Return where a page starts.

    Raises:
        InvalidParams: this is no cursor that we gave.
    """
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _CURSOR_DIGITS:
        raise _strange_cursor()
    return int(cursor)
