"""Warnings for the person in the editor: `window/logMessage`.

Owns that a client hears no more than it reads, from any thread, and nothing of what is done for
others. What a line may hold is `words`'.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from treadle.protocol.editor import ShowMessageParams
from treadle.server.log.asker import asker
from treadle.server.log.words import is_ours, safe_line, secrets, told


class ClientLog(logging.Handler):
    """Tells one client of our warnings and errors.

    Args:
        tell: sends it one; called on the event loop that is running now.
        is_slow: whether it reads too little of what it is sent; then nothing is added to that.
        whose: the client, as `asker.on_behalf_of` knows it.
    """

    def __init__(
        self,
        tell: Callable[[ShowMessageParams], None],
        is_slow: Callable[[], bool],
        whose: object,
    ) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._is_slow = is_slow
        self._whose = whose
        self._loop = asyncio.get_running_loop()
        self.addFilter(is_ours)
        logging.getLogger("treadle").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record's first line; its frames stand in the log file."""
        if asker() not in (None, self._whose):
            return
        line = safe_line(told(record)[0], secrets())
        is_error = record.levelno >= logging.ERROR
        # A loop that is closed has no client any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(
                self._send, ShowMessageParams(type=1 if is_error else 2, message=line)
            )

    def close(self) -> None:
        """Tell nothing from now on."""
        logging.getLogger("treadle").removeHandler(self)
        super().close()

    def _send(self, params: ShowMessageParams) -> None:
        if not self._is_slow():
            self._tell(params)
