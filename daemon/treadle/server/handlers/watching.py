"""`session/attach` and `session/detach`: watching a session, also one that others prompt."""

from __future__ import annotations

from functools import partial

from treadle.protocol.attach import AttachParams, AttachResult, DetachParams, DetachResult
from treadle.server.bridge import pair_of
from treadle.server.bridge_attach import snapshot_of
from treadle.server.dispatch import FollowedBy
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer
from treadle.thread.paths import thread_path


@handles("session/attach")
async def attach(params: AttachParams, peer: Peer) -> AttachResult | FollowedBy:
    """Watch a session from now on, or from where the client left it; opens nothing.

    Nothing here suspends: what happens next is an event that follows.
    """
    pair, runtime = pair_of(params), peer.runtime
    outbox = runtime.outbox(pair)
    is_of_this_life = params.epoch in (None, runtime.epoch)
    missed = None
    if params.since is not None and is_of_this_life:
        missed = outbox.since(params.since)
    peer.watch_anew(outbox)
    if missed is not None and params.since is not None:
        again = AttachResult(
            seq=params.since, epoch=runtime.epoch, truncated=False, watchers=outbox.watcher_count
        )
        return FollowedBy(again, partial(peer.replay, missed))
    thread = thread_path(runtime.services.folders.data, *pair)
    return AttachResult(
        seq=outbox.last_seq,
        epoch=runtime.epoch,
        truncated=params.since is not None,
        watchers=outbox.watcher_count,
        snapshot=snapshot_of(runtime.look(pair), thread),
    )


@handles("session/detach")
async def detach(params: DetachParams, peer: Peer) -> DetachResult:
    """Watch a session no more; what it does goes on."""
    outbox = peer.runtime.outbox(pair_of(params))
    was_watched = peer.watches(outbox)
    peer.unwatch(outbox)
    return DetachResult(detached=was_watched)
