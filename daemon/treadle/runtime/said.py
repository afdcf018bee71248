"""What was said in a thread, found again by the hash of its text: where a cut message is whole.

Owns that name, and how a text is found by it. It is the thread's own line that is read: there is
no copy that could be lost before it, outlive it or be another text, and a fork has it too.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Iterator

from treadle.errors import TreadleError
from treadle.runtime.stored import outputs_folder
from treadle.thread.history import quoted
from treadle.thread.message import Message
from treadle.thread.reading import Reading
from treadle.thread.thread import Thread
from treadle.tools.spill import SPILLED, Spill

logger = logging.getLogger(__name__)

# Enough that no two texts of a thread share it by chance.
HASH_CHARACTERS = 16

# A thread of hundreds of megabytes is not searched to its end while a model waits for a tool.
SEARCH_SECONDS = 20.0

# How many messages of the file are looked at together; their bytes are bounded by `reading`.
PAGE_MESSAGES = 500

_NAME = re.compile(rf"{re.escape(SPILLED)}said-([0-9a-f]{{{HASH_CHARACTERS}}})\.txt")


async def said(text: str) -> str:
    """Return what a message of a thread is read by.

    Args:
        text: the whole of it, as a model was shown it.
    """
    return f"{SPILLED}said-{_hash(text)}.txt"


def spill_of(thread: Thread) -> Spill:
    """Return where too long outputs of a thread's tools are kept, and cut messages are read.

    The outputs go when the session is closed, and what names them stays in the thread: so none
    has a name that an earlier one had.
    """

    async def find(path: str) -> bytes | None:
        named = _NAME.fullmatch(path)
        if named is None:
            return None
        text = await asyncio.to_thread(_find, thread.reading(), named[1])
        return None if text is None else text.encode(errors="replace")

    return Spill(outputs_folder(thread), mark=f"{secrets.token_hex(4)}-", elsewhere=find)


def _find(reading: Reading, wanted: str) -> str | None:
    """Look through the messages in memory, then through the file; it blocks."""
    until = time.monotonic() + SEARCH_SECONDS
    try:
        for message in _messages(reading):
            # A person's text that begins like our words is shown as a quotation.
            text = quoted(message).text
            if _hash(text) == wanted:
                return text
            if time.monotonic() > until:
                logger.warning("a cut message was not found in %g seconds", SEARCH_SECONDS)
                return None
    except TreadleError as error:
        logger.warning("a cut message cannot be looked for: %s", error.message)
    return None


def _messages(reading: Reading) -> Iterator[Message]:
    yield from reading.messages
    start: int | None = 0 if not reading.is_whole else None
    while start is not None:
        page = reading.page(start, PAGE_MESSAGES)
        yield from (one.message for one in page.messages)
        start = page.next_start


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:HASH_CHARACTERS]
