"""The sidecar: one client on standard input and output, from the first byte to a bounded end."""

from __future__ import annotations

import asyncio
import logging

from treadle.folders import Folders
from treadle.server.ending import LOST_CODE, catch_signals, exit_surely
from treadle.server.home import Home
from treadle.server.link import Link
from treadle.server.running import Running
from treadle.server.wire.pipes import Pipes

logger = logging.getLogger(__name__)


def serve_stdio(folders: Folders, in_fd: int, out_fd: int) -> int:
    """Serve one client until it ends, a signal comes, or its process is gone.

    Args:
        folders: where configuration, data and cache lie.
        in_fd: the descriptor to read frames from; the system closes it with the process.
        out_fd: the descriptor to write frames to; the same.

    Returns:
        The exit code: 0, or 1 when the client said `exit` without `shutdown`, or stopped reading,
        and 74 where something that was said is lost, which standard error then names.
    """
    return asyncio.run(_serve(folders, in_fd, out_fd))


async def _serve(folders: Folders, in_fd: int, out_fd: int) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    def end_by_signal() -> None:
        if not ended.done():
            logger.info("ending: a signal came")
        end(0)

    running = Running(folders)
    link = Link(
        folders,
        running.open,
        lambda told: Pipes(in_fd, out_fd, told),
        home=Home("stdio", clients=lambda: 1),
        on_shutdown=running.close,
        on_end=end,
    )
    catch_signals(loop, end_by_signal)
    link.start()
    code = await ended
    began = loop.time()
    link.stop_hearing()
    await running.close_in_time()
    await link.close()
    if running.has_lost():
        code = LOST_CODE
    logger.info("ended with code %d after %.3f s of closing", code, loop.time() - began)
    exit_surely(code)
    return code
