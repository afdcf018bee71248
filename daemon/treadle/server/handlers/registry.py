"""The list of handlers, which their modules fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from treadle.server.dispatch import Handler
from treadle.server.peer import Peer

HANDLERS: dict[str, Handler[Peer]] = {}

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


def handles(method: str) -> Callable[[HandlerT], HandlerT]:
    """Put the decorated function on the list as the handler of `method`."""

    def register(handler: HandlerT) -> HandlerT:
        HANDLERS[method] = handler
        return handler

    return register
