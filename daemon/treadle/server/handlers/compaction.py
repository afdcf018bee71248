"""The method that compacts a session's conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from treadle.protocol.compaction import CompactParams, CompactResult
from treadle.runtime.compacting import CompactionAsked
from treadle.server.bridge import pair_of
from treadle.server.bridge_compaction import compact_result
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer


@handles("session/compact")
async def compact(params: CompactParams, peer: Peer) -> CompactResult:
    """Make the conversation shorter for the model, behind what was asked for before.

    Raises:
        InvalidParams: the token is in use.
    """
    return await run_compaction(params, peer)


async def run_compaction(
    params: CompactParams, peer: Peer, agreed: Callable[[], Awaitable[bool]] | None = None
) -> CompactResult:
    """Compact, and show its progress.

    Args:
        params: what is asked for.
        peer: who asks.
        agreed: asks the client to take the work-done token, where that is ours.

    Raises:
        InvalidParams: as `compact` does.
    """
    pair = pair_of(params)
    asked = CompactionAsked(params.instructions, default_cwd=peer.default_cwd, client=peer.person)
    with peer.progress.shown(
        work_done=params.work_done_token,
        partial=None,
        title=f"compacting {' · '.join(pair)}",
        stop=asked.stop,
        agreed=agreed,
    ) as progress:
        asked.on_event = progress.take if progress else None
        return compact_result(await peer.session(pair).compact(asked))
