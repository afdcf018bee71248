"""Which attachments a conversation's requests show, and what an endpoint's refusals teach.

Owns the bound on their size. Pure: refuses to know how they are read, encoded and sent.

The newest are shown, up to the bound; of the others the model reads that they are there and why
it does not see them. A conversation that an endpoint refuses because of them goes on with fewer.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from treadle.errors import ContextOverflow, ModelAuth, ModelError, ModelRateLimited
from treadle.models.attachments import NOT_SHOWN, size_in_words
from treadle.thread.attachments import Reference, references
from treadle.thread.message import Message

logger = logging.getLogger(__name__)

# The bytes of all attachments of one request. Base64 makes 28 MB of them, and endpoints take
# between 20 and 50 MB in one request; one that takes less says so and is sent less.
MAX_REQUEST_BYTES = 20 << 20

# After this many refusals of one call it is made without any attachment.
MAX_REFUSALS = 2

Kind: TypeAlias = Literal["image", "audio", "file"]

# What chat-completions endpoints have a form for.
KINDS: dict[str, Kind] = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/gif": "image",
    "image/webp": "image",
    "audio/wav": "audio",
    "audio/mpeg": "audio",
    "application/pdf": "file",
}

Notes: TypeAlias = tuple[str, ...]
"""For each of a message's references, in order: why it is left out; empty where it is shown."""


class Attachments:
    """What one conversation's requests to one model show.

    Args:
        model: its name, for the log.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._allowance_bytes = MAX_REQUEST_BYTES
        self._withheld: frozenset[Kind] = frozenset()
        self._learnt = (self._allowance_bytes, self._withheld)  # before the call that runs now
        self._refusals = 0
        self._shown: Counter[Kind] = Counter()  # bytes by kind, of the last request
        self._left_out = 0  # how many were too much, when the log last said so

    def begin_call(self) -> None:
        """Begin a model call, whose refusals are counted together."""
        self._refusals = 0
        self._learnt = (self._allowance_bytes, self._withheld)

    def plan(self, messages: Sequence[Message]) -> dict[int, Notes]:
        """Decide what the next request shows.

        Returns:
            By the identity of each message that refers to something, what is said of that.
        """
        self._shown.clear()
        plan: dict[int, Notes] = {}
        room = _Room(0 if self._refusals >= MAX_REFUSALS else self._allowance_bytes)
        for message in reversed(messages):
            if found := references(message):
                notes = [self._note(each, message, room) for each in reversed(found)]
                plan[id(message)] = tuple(reversed(notes))
        self._tell(room)
        return plan

    def degrade(self, error: ModelError) -> bool:
        """Show less from the next request on, where that may mend what was refused.

        What is too large is shown to half its size; what the model does not take is not shown to
        it any more. A call that fails all the same has taught nothing.

        Returns:
            Whether the call is to be made again.
        """
        kinds = refused_kinds(error) & set(self._shown)
        is_too_large = bool(self._shown) and (
            isinstance(error, ContextOverflow) or (bool(kinds) and _says_too_large(error))
        )
        if not (kinds or is_too_large) or self._refusals >= MAX_REFUSALS:
            self._allowance_bytes, self._withheld = self._learnt
            return False
        self._refusals += 1
        if is_too_large:
            self._allowance_bytes = self._shown.total() // 2
            what = f"takes no {size_in_words(self._shown.total())} of attachments"
        else:
            self._withheld |= kinds
            what = f"takes no attachments of the kind {' and '.join(sorted(kinds))}"
        logger.warning("the model %s %s; it is asked again with fewer", self._model, what)
        return True

    def _note(self, reference: Reference, message: Message, room: _Room) -> str:
        kind = KINDS.get(reference.mime_type)
        if kind is None or kind in self._withheld or message.role == "assistant":
            return NOT_SHOWN
        if not room.take(reference.size_bytes):
            return LEFT_OUT
        self._shown[kind] += reference.size_bytes
        return ""

    def _tell(self, room: _Room) -> None:
        if room.left_out > self._left_out:
            logger.warning(
                "%d attachments, the oldest or largest, are not sent to the model %s again: "
                "one request holds at most %s of them",
                room.left_out,
                self._model,
                size_in_words(room.size_bytes),
            )
        self._left_out = room.left_out


LEFT_OUT = "left out, for this conversation has more attachments than fit into a request"


def refused_kinds(error: ModelError) -> frozenset[Kind]:
    """Return which kinds of attachment an endpoint's error names."""
    if isinstance(error, ModelAuth | ModelRateLimited):
        return frozenset()
    named = frozenset(kind for kind, words in _NAMES.items() if words.search(error.said))
    return named or (frozenset(_NAMES) if _ANY_KIND.search(error.said) else frozenset())


class _Room:
    """The room of one request, filled from the newest attachment on.

    Once one does not fit, no older one does: what is left out stays so, and requests keep their
    beginning. One that could never fit is in nobody's way.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.left_out = 0
        self._left_bytes = size_bytes

    def take(self, size_bytes: int) -> bool:
        if size_bytes <= self._left_bytes:
            self._left_bytes -= size_bytes
            return True
        if size_bytes <= self.size_bytes:
            self._left_bytes = 0
        self.left_out += 1
        return False


_NAMES: dict[Kind, re.Pattern[str]] = {
    "image": re.compile(r"image|vision|picture", re.IGNORECASE),
    "audio": re.compile(r"audio", re.IGNORECASE),
    "file": re.compile(r"\bfiles?\b|file_data|pdf|document", re.IGNORECASE),
}

# How endpoints say that a message's content is to be text, without naming what it is not.
_ANY_KIND = re.compile(
    r"modal|attachment|content.{0,40}\b(?:type|part|string|array|list)\b"
    r"|expected (?:a )?string|valid string|must be (?:a )?string"
    # Some take no user's message after a tool's, in which what a tool brought along is shown.
    r"|roles?\b.{0,40}\b(?:after|follow|alternate)",
    re.IGNORECASE,
)

_TOO_LARGE = re.compile(
    r"too (?:large|big|many)|exceed|larger than|maximum|at most [1-9]|\blimit\b", re.IGNORECASE
)


def _says_too_large(error: ModelError) -> bool:
    return bool(_TOO_LARGE.search(error.said))
