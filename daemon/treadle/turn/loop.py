"""The agentic loop, which is a layer like any other: a do-while around the rest of the stack.

Belongs outside MaxIterations, Compaction and Tools, so that each of them sees every pass.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.stack.stack import App
from treadle.turn.env import Env
from treadle.turn.events import StepStarted
from treadle.turn.steering import Inbox


class Loop:
    """Runs the inner stack once, then again while `condition(env)` holds.

    Args:
        app: the rest of the stack.
        condition: asked after each pass, unless somebody set `env.should_exit`.
            Contract: must not block; what it raises ends the turn.
    """

    def __init__(self, app: App[Env], *, condition: Callable[[Env], bool]) -> None:
        self._app = app
        self._condition = condition

    async def __call__(self, env: Env) -> None:
        """Pass the env inwards until the condition fails; `env.iteration` counts the passes."""
        while True:
            env.emit("step", StepStarted(env.iteration))
            await self._app(env)
            if env.should_exit or not self._condition(env):
                return
            env.iteration += 1


class ToolResultLoop(Loop):
    """Goes on while the model has a tool's result to read, or a person's word.

    Args:
        app: the rest of the stack, `Steering` with the same inbox first.
        inbox: what is said to the turn while it runs; asking it decides that the turn ends.
    """

    def __init__(self, app: App[Env], *, inbox: Inbox | None = None) -> None:
        def goes_on(env: Env) -> bool:
            if env.messages[-1].role == "tool":
                return True
            return inbox is not None and not inbox.seal_if_empty()

        super().__init__(app, condition=goes_on)
