"""Hearing that a server's tools are others now, where the server wants to be asked for that.

Owns that what was missed while nobody heard counts as a change. Refuses to know what becomes of
it. Servers of the handshake tell it by themselves; see `callbacks`.
"""

from __future__ import annotations

import asyncio
import contextlib

from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError

from treadle.mcp.remote import Host
from treadle.mcp.sdk.session import Session

# A stream that ends is mostly a proxy's time-out, and opened again at once; a server that
# cannot keep one open is not asked more often than once a minute.
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0


async def hear_changes(session: Session, host: Host) -> None:
    """Tell the host of changes, until cancelled or until the server says that it tells none."""
    told = session.server_capabilities
    if told is None or told.tools is None or not told.tools.list_changed:
        return
    wait_seconds = FIRST_WAIT_SECONDS
    is_first = True
    while True:
        # An error of a server that does not know this either comes again with the next try.
        with contextlib.suppress(SubscriptionLost, MCPError, TimeoutError):
            async with listen(session, tools_list_changed=True) as subscription:
                if not subscription.honored.tools_list_changed:
                    return
                wait_seconds = FIRST_WAIT_SECONDS
                if not is_first:
                    host.tools_changed()
                async for _ in subscription:
                    # `Callbacks.notice` is told of each as well.
                    pass
        is_first = False
        await asyncio.sleep(wait_seconds)
        wait_seconds = min(2 * wait_seconds, LONGEST_WAIT_SECONDS)
