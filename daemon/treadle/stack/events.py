"""Events: what a turn tells whoever listens, each listener isolated from the others."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from treadle.errors import ConfigurationError

logger = logging.getLogger(__name__)

Subscriber: TypeAlias = Callable[[Any, Any], object]
"""Called as `fn(env, payload)`, in order of subscription, before the turn goes on.

Contract: must not block or suspend; what it raises is logged and reaches nobody else;
what it returns is dropped.
"""


class Events:
    """Subscribers by event name, from a fixed set of names."""

    def __init__(self, names: Collection[str]) -> None:
        self._subscribers: dict[str, list[Subscriber]] = {name: [] for name in names}

    def on(self, name: str, fn: Subscriber) -> None:
        """Subscribe to one event.

        Args:
            name: one of the names these events were made with.
            fn: a plain function of `(env, payload)`.

        Raises:
            ConfigurationError: an unknown name, or a coroutine function, which nobody would await.
        """
        if name not in self._subscribers:
            known = ", ".join(sorted(self._subscribers))
            raise ConfigurationError(f"no event {name!r}; there are: {known}")
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
            raise ConfigurationError(
                f"the subscriber of {name!r} is a coroutine function; "
                "subscribe a plain function and start a task of your own in it"
            )
        self._subscribers[name].append(fn)

    def emit(self, name: str, env: object, payload: object) -> None:
        """Tell every subscriber of `name`; one that raises is logged and the rest still hear."""
        for subscriber in tuple(self._subscribers[name]):
            try:
                subscriber(env, payload)
            except Exception:
                logger.exception("a subscriber of %r raised", name)
