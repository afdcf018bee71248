"""The methods that copy, shorten and delete a session's thread."""

from __future__ import annotations

from treadle.protocol.sessions import (
    DeleteParams,
    DeleteResult,
    ForkParams,
    ResumeResult,
    RewindParams,
    RewindResult,
)
from treadle.runtime.outbox import Pair
from treadle.server.bridge import pair_of, resume_result
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer
from treadle.thread.paths import validate_name


@handles("session/fork")
async def fork(params: ForkParams, peer: Peer) -> ResumeResult:
    """Begin a session as a copy of another one's conversation, and open it.

    Raises:
        RequestFailed: there is nothing to copy, or something where the copy is to be.
    """
    source = pair_of(params)
    validate_name(params.into, "into")
    into = Pair(source.agent, params.into)
    copy = peer.runtime.copier(source, into, params.at)
    session = peer.session(into)
    thread = await session.begin_as(copy, peer.default_cwd)
    return resume_result(
        thread, session.state, created=True, servers=session.mcp_statuses(), cwd=session.cwd
    )


@handles("session/rewind")
async def rewind(params: RewindParams, peer: Peer) -> RewindResult:
    """End the conversation at an earlier message, behind the turns that were asked for before."""
    session = peer.session(pair_of(params))
    return RewindResult(messages=await session.rewind(params.to, peer.default_cwd))


@handles("session/delete")
async def delete(params: DeleteParams, peer: Peer) -> DeleteResult:
    """Close the session and delete its thread."""
    return DeleteResult(deleted=await peer.runtime.session(pair_of(params)).delete())
