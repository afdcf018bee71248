"""The thread around a turn: history in on the way in, every message kept as it is said.

Belongs outermost: history is there before anything else runs, and whatever the rest of the
stack says, its end included, is kept.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from treadle.errors import ConfigurationError
from treadle.stack.stack import App
from treadle.thread.thread import Thread
from treadle.turn.env import Env
from treadle.turn.outcome import turn_done


class SessionLog:
    """Keeps the turn in a thread.

    Args:
        app: the rest of the stack.
        path: a thread's file, opened for each turn and closed after it; made when it is missing.
        thread: a thread that somebody else opened and will close. Give one of the two.
    """

    def __init__(
        self, app: App[Env], *, path: str | Path | None = None, thread: Thread | None = None
    ) -> None:
        if (path is None) == (thread is None):
            raise ConfigurationError("SessionLog takes either a path or a thread")
        self._app = app
        self._path = path
        self._thread = thread

    async def __call__(self, env: Env) -> None:
        """Restore history, run the turn, record how it ended.

        Raises:
            ThreadLocked: somebody writes this thread, here or in another process.
            ThreadUnreadable: the file is there and cannot be opened.
            StorageDegraded: not all that was said could be written by the end of the turn; the
                message says where it lies.
        """
        if self._thread is not None:
            await self._run_turn(env, self._thread)
        elif self._path is not None:
            thread = await asyncio.to_thread(Thread.open, Path(self._path))
            try:
                await self._run_turn(env, thread)
            finally:
                thread.close()

    async def _run_turn(self, env: Env, thread: Thread) -> None:
        key, asked = env.metadata.get("key", ""), env.metadata.get("asked", "")
        env.metadata["turn"] = thread.start_turn(key, asked)
        error: BaseException | None = None
        try:
            await env.resume(thread, thread.view())
            await self._app(env)
        except BaseException as caught:
            error = caught
            raise
        finally:
            env.done = turn_done(env, error)
            # The record is written before the first wait, so that no cancel can keep it away.
            await thread.end_turn(env.done.stop_reason, env.done.usage, env.done.steps)
