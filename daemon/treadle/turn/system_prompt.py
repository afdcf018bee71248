"""The agent's instructions, put at the head of every turn and never stored.

Belongs inside SessionLog, so that the one system message stands before the loaded history.
Byte-stable from turn to turn, so that providers' prompt caches hit.
"""

from __future__ import annotations

from treadle.stack.stack import App
from treadle.turn.env import Env


class SystemPrompt:
    """Puts exactly one system message at the head; none when the text is empty."""

    def __init__(self, app: App[Env], *, text: str) -> None:
        self._app = app
        self._text = text

    async def __call__(self, env: Env) -> None:
        """Instruct, then pass the env inwards."""
        if self._text:
            env.instruct(self._text)
        await self._app(env)
