"""Keeping files as they were before a call changes them, so that it can be undone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from treadle.sandbox.sandbox import Changed
from treadle.stack.stack import App
from treadle.tools.files.changes import Change, FileChange
from treadle.tools.tool import CallEnv, ToolContext


class Snapshot:
    """Notes what a call that writes files has changed. Belongs directly around what acts.

    Calls that write follow one another, so that each is undone without another.
    """

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Pass the env inwards; note what has become of the files, also where it failed."""
        assert env.tool is not None, "Validate belongs around Snapshot"
        if env.tool.writes is None:
            await self._app(env)
            return
        session = env.context.session
        async with session.writing:
            before = await _read_all(env)
            try:
                await self._app(env)
            except Changed as error:
                # What somebody else did to it is not the call's to undo, and was not seen.
                await _leave_out(env, before, error.filename)
                raise
            finally:
                # By place: a path that was a link, and is removed, names another file now.
                _note(env, before, await _read_places(env.context, before))


def _note(env: CallEnv, before: dict[str, bytes | None], after: dict[str, bytes | None]) -> None:
    """Have what changed known as seen, and as something to undo."""
    session = env.context.session
    changed = tuple(
        FileChange(place, before[place], data)
        for place, data in after.items()
        if data != before[place]
    )
    for file in changed:
        session.seen.note(file.place, file.after)
    if changed:
        what = f"{env.call.name} {', '.join(file.place for file in changed)}"
        session.changes.add(Change(what, changed))


async def _leave_out(env: CallEnv, before: dict[str, bytes | None], path: object) -> None:
    with suppress(OSError):
        before.pop(await env.context.sandbox.place(str(path)), None)


async def _read_all(env: CallEnv) -> dict[str, bytes | None]:
    """Return what the files of a call hold, by place; what cannot be read is its tool's to tell."""
    assert env.tool is not None and env.tool.writes is not None
    places: list[str] = []
    for path in env.tool.writes(env.arguments):
        with suppress(OSError):
            places.append(await env.context.sandbox.place(path))
    return await _read_places(env.context, places)


async def _read_places(context: ToolContext, places: Iterable[str]) -> dict[str, bytes | None]:
    """Return what files hold, by place; those that cannot be read are left out."""
    found: dict[str, bytes | None] = {}
    for place in places:
        with suppress(OSError):
            found[place] = await _read(context, place)
    return found


async def _read(context: ToolContext, place: str) -> bytes | None:
    """Return a file's bytes; None where there is none.

    Raises:
        OSError: it is there, and cannot be read.
    """
    try:
        return await context.sandbox.read_bytes(place)
    except FileNotFoundError:
        return None
