"""Making an outcome of every failure: a turn goes on, whatever becomes of one call."""

from __future__ import annotations

import asyncio
import logging

from treadle.stack.stack import App
from treadle.tools.tool import CallEnv, ToolError

logger = logging.getLogger(__name__)


class TellFailures:
    """Makes of whatever is raised below an outcome the model can act on.

    Belongs directly inside Truncate.
    """

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Pass the env inwards; only a cancel of this very task goes through."""
        try:
            await self._app(env)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            _fail(env, f"{env.call.name} was cancelled from within; it may have had effects")
        except ToolError as error:
            _fail(env, str(error))
        except OSError as error:
            # Without the file names it carries, for they may lie outside the sandbox.
            what = error.strerror or str(error) or type(error).__name__
            _fail(env, f"{env.call.name} failed: {what}")
        except (Exception, SystemExit) as error:
            logger.exception("the tool %s raised", env.call.name)
            _fail(env, f"{env.call.name} failed: {type(error).__name__}: {error}")


def _fail(env: CallEnv, content: str) -> None:
    env.content, env.blocks, env.ok = content, (), False


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
