"""Bounding what a model reads of one call; the whole is kept where it can be read in parts."""

from __future__ import annotations

import asyncio

from treadle.secrets import known
from treadle.stack.stack import App
from treadle.thread.message import clean
from treadle.thread.repair import EMPTY_RESULT_TEXT
from treadle.tools.limits import RESULT_LIMIT_BYTES, cut_bytes
from treadle.tools.tool import CallEnv

# Where the cut is, so that the model knows there is more.
_NOTE = "\n[… cut: the whole result has {whole_bytes} bytes, this is its beginning{where}]"
# What that says beside it where the whole is kept.
_WHERE = "; read {path} for the rest"


# So much is looked through faster than it is handed to a worker thread; megabytes would be felt.
INLINE_CHARACTERS = 1 << 20


class Truncate:
    """Bounds what the model reads, at a whole character, with a note. Belongs outermost.

    What says nothing at all says so: a result without text is none to some providers.
    """

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Pass the env inwards, then cut what it says."""
        await self._app(env)
        if len(env.content) > INLINE_CHARACTERS:
            env.content = await asyncio.to_thread(_safe, env.content)
        else:
            env.content = _safe(env.content)
        whole_bytes = len(env.content.encode())
        if whole_bytes > RESULT_LIMIT_BYTES:
            path = await env.context.session.spill.keep(env.content)
            where = _WHERE.format(path=path) if path else ""
            note = _NOTE.format(whole_bytes=whole_bytes, where=where)
            env.content = cut_bytes(env.content, RESULT_LIMIT_BYTES - len(note.encode())) + note
            env.truncated = True


def _safe(text: str) -> str:
    # Secrets first: half of one, at the cut, is not recognised any more.
    return known().redact(clean(text)) or EMPTY_RESULT_TEXT
