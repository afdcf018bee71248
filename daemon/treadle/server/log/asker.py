"""For which client something is done: carried along by tasks and worker threads.

What a session does is done for whoever made it begin; what nobody asked for is done for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asker: ContextVar[object | None] = ContextVar("asker", default=None)


def asker() -> object | None:
    """Return for which client this is done; None where it is for none in particular."""
    return _asker.get()


@contextmanager
def on_behalf_of(client: object) -> Iterator[None]:
    """Do something for a client, and whatever is begun meanwhile."""
    before = _asker.set(client)
    try:
        yield
    finally:
        _asker.reset(before)
