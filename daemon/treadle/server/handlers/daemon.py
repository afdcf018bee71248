"""`daemon/status` and `daemon/stop`."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from treadle.errors import NotShared
from treadle.process.memory import resident_bytes
from treadle.protocol.base import Empty
from treadle.protocol.daemon import (
    DaemonStatusResult,
    DaemonStopParams,
    DaemonStopResult,
    SessionCounts,
)
from treadle.protocol.methods import PROTOCOL_VERSION
from treadle.server.handlers.registry import handles
from treadle.server.peer import Peer
from treadle.thread.message import rfc3339
from treadle.version import __version__


@handles("daemon/status")
async def status(params: Empty, peer: Peer) -> DaemonStatusResult:
    """Tell how the daemon is doing; never waits behind anything."""
    now = peer.runtime.census()
    return DaemonStatusResult(
        pid=os.getpid(),
        version=__version__,
        protocol_version=PROTOCOL_VERSION,
        started_at=rfc3339(datetime.fromtimestamp(peer.home.began_at, UTC)),
        data_dir=str(peer.runtime.services.folders.data),
        transport=peer.home.transport,
        clients=peer.home.clients(),
        sessions=SessionCounts(
            open=now.open,
            held=now.held,
            running=now.running,
            queued=now.queued,
            jobs=now.jobs,
            degraded=now.degraded,
        ),
        memory_bytes=resident_bytes(),
        idle_exit_seconds=peer.home.idle_exit_seconds(),
    )


@handles("daemon/stop")
async def stop(params: DaemonStopParams, peer: Peer) -> DaemonStopResult:
    """Stop the shared daemon, right after the reply.

    Raises:
        NotShared: this daemon serves one client and ends with it.
    """
    home = peer.home
    if home.stop is None:
        raise NotShared("this daemon serves you alone; send shutdown and exit to end it")
    now = peer.runtime.census()
    others = home.clients() - 1
    why = ", ".join(filter(None, [f"{others} other clients" if others else "", now.goes_on]))
    stopping = not (params.if_idle and why)
    if stopping:
        home.stop(params.if_idle)
    return DaemonStopResult(
        stopping=stopping, clients=others, running=now.running, why="" if stopping else why
    )
