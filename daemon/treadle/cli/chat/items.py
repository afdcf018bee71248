"""What a chat can show, and the seam behind which it is shown.

Owns the shapes. Refuses to know the protocol, and how anything looks. Text in an item is as it
came: a face cleans it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Tone: TypeAlias = Literal["quiet", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Said:
    """The person's words; `typed` just now, so that a line terminal has them on its screen."""

    text: str
    typed: bool = False


@dataclass(frozen=True, slots=True)
class Spoke:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """What was spoken is whole: the next piece begins another answer."""


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning that has ended; `in_full` where the person wants to read it.

    `seconds` is None for one that is remembered.
    """

    text: str
    seconds: float | None = None
    in_full: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A tool is about to run."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Returned:
    """A tool's result; `seconds` is None for one that is remembered."""

    name: str
    ok: bool
    content: str
    truncated: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What Treadle itself has to say."""

    text: str
    tone: Tone = "quiet"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a command was asked for."""

    text: str


Item: TypeAlias = Said | Spoke | SpeechEnded | Thought | Called | Returned | Note | Listing


@dataclass(frozen=True, slots=True)
class Status:
    """What the chat does now.

    Args:
        agent: whom it talks to.
        instance: in which session.
        model: who answers, as far as that is known.
        doing: what goes on, or nothing.
        since: when that began, by `time.monotonic`.
        is_turn: whether a turn runs, which can be steered and cancelled.
        hint: what the next key would do, where that is not the usual.
    """

    agent: str
    instance: str
    model: str = ""
    doing: str = ""
    since: float = 0.0
    is_turn: bool = False
    hint: str = ""


class Face(Protocol):
    """Shows a conversation.

    Contract: called on the event loop, never blocks for long. `interactive` says that a person
    looks at it, who wants to know where the conversation was.
    """

    interactive: bool

    def show(self, item: Item) -> None:
        """Show one more thing, below what was shown before."""

    def status(self, status: Status) -> None:
        """Take note of what goes on now."""

    def offer(self, draft: str) -> None:
        """Give back words that were never sent."""
