"""An agent's own layer, guarded: what it raises by itself is the agent's problem, in words.

Belongs where the agent's file puts it: inside the loop, around the tools.
Refuses to know what the layer does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treadle.agents.own_errors import broken, line_in, said_by
from treadle.errors import InvalidAgent
from treadle.stack.stack import App, LayerFactory
from treadle.turn.env import Env

logger = logging.getLogger(__name__)


class Guarded:
    """Runs a layer of an agent's file; errors from inside it pass as they are.

    Args:
        app: what the layer wraps.
        own: makes it.
        made_with: its options.
        source: the agent's file.

    Raises:
        InvalidAgent: it cannot be made.
    """

    def __init__(
        self,
        app: App[Env],
        *,
        own: LayerFactory[Env],
        made_with: Mapping[str, Any],
        source: str,
    ) -> None:
        self._app = app
        self._name = getattr(own, "__name__", type(own).__name__)
        self._source = Path(source)
        self._passed: Exception | None = None
        try:
            self._layer = own(self._inside, **made_with)
        except Exception as error:
            raise self._broken(error) from error

    async def __call__(self, env: Env) -> None:
        """Pass the env to the layer.

        Raises:
            InvalidAgent: the layer failed by itself.
        """
        self._passed = None
        try:
            await self._layer(env)
        except Exception as error:
            if error is self._passed:
                raise
            raise self._broken(error) from error

    async def _inside(self, env: Env) -> None:
        try:
            await self._app(env)
        except Exception as error:
            self._passed = error
            raise

    def _broken(self, error: Exception) -> InvalidAgent:
        logger.warning("the layer %s of %s failed", self._name, self._source, exc_info=error)
        line = line_in(error, self._source)
        return broken(self._source, f"its layer {self._name} failed: {said_by(error)}", line)
