"""A stack: layers around one app, built as often as it is wanted, called with an env.

It knows nothing of what flows through it: a turn's env, a tool call, a conversation to compact.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Self, TypeAlias, TypeVar

from treadle.errors import ConfigurationError

EnvT = TypeVar("EnvT")

App: TypeAlias = Callable[[EnvT], Awaitable[None]]
"""What a layer wraps and what it is itself.

Contract: may raise; may suspend, must not block; returns nothing, for the env is the answer.
"""

LayerFactory: TypeAlias = Callable[..., App[EnvT]]
"""Builds a layer from `(app, **options)`: a class with one `async __call__(env)`, usually."""


class Stack(Generic[EnvT]):
    """Layers in order, outermost first, around the app that `run` sets."""

    def __init__(self) -> None:
        self._layers: list[tuple[LayerFactory[EnvT], dict[str, Any]]] = []
        self._app: App[EnvT] | None = None

    def use(self, layer: LayerFactory[EnvT], **options: Any) -> Self:
        """Add a layer inside those already there.

        Args:
            layer: called as `layer(app, **options)` when the stack is built.
            options: whatever the layer takes.

        Returns:
            This stack, so that calls chain.
        """
        self._layers.append((layer, options))
        return self

    def run(self, app: App[EnvT]) -> Self:
        """Set the app at the bottom, in place of an earlier one.

        Returns:
            This stack, so that calls chain.
        """
        self._app = app
        return self

    def build(self, between: LayerFactory[EnvT] | None = None) -> App[EnvT]:
        """Nest the layers around the app.

        Args:
            between: a layer to put around the app and around every layer; lint, in tests.

        Returns:
            The outermost layer, ready to be called any number of times.

        Raises:
            ConfigurationError: no app was set.
        """
        if self._app is None:
            raise ConfigurationError("nothing is at the bottom of the stack: call run(…) first")
        app = self._app if between is None else between(self._app)
        for layer, options in reversed(self._layers):
            app = layer(app, **options)
            app = app if between is None else between(app)
        return app
