"""What the kit can do wrong, and what has to come of it while its session is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Misdeed:
    """A server that misbehaves in one way, or in several that make each other worse.

    Args:
        name: as it stands in the names of combinations.
        arguments: the kit's.
        echo: what comes of calling its tool `echo` once: an answer, a failure, or either. Nothing
            is for a server whose tools never come to be known, or that would never answer.
        hears: whether it hears of a call of its tool `wait`, which nobody answers.
        exit: what it returns when it is closed while it has nothing to do, negative for a signal;
            None where it has ended by then, or where that depends on the moment.
        by: the rung of the ladder that ends it then, with all that it has started.
    """

    name: str
    arguments: tuple[str, ...] = ()
    echo: Literal["answers", "fails", "either", "nothing"] = "answers"
    hears: bool = True
    exit: int | None = 0
    by: str = "end_of_input"


MISDEEDS = (
    Misdeed("well-behaved"),
    Misdeed("ignores-eof", ("ignore-eof",), exit=-15, by="terminate"),
    Misdeed("ignores-term", ("ignore-term",)),
    Misdeed("ignores-both", ("ignore-eof", "ignore-term"), exit=-9, by="kill"),
    Misdeed("grandchild", ("grandchild",), by="terminate"),
    Misdeed("deaf-grandchild", ("deaf-grandchild",), by="kill"),
    Misdeed("runaway", ("runaway",), by="kill"),
    Misdeed("orphan", ("orphan",), by="kill"),
    Misdeed(
        "deaf-family",
        ("ignore-eof", "ignore-term", "grandchild", "deaf-grandchild", "runaway", "orphan"),
        exit=-9,
        by="kill",
    ),
    Misdeed(
        "dead-with-family", ("die-on-call=2", "deaf-grandchild", "runaway", "orphan"), by="kill"
    ),
    Misdeed("slow-start", ("slow-start=0.5",)),
    Misdeed("dies-at-start", ("die-at-start", "orphan"), echo="nothing", hears=False, exit=None),
    Misdeed("never-reads", ("never-read",), echo="nothing", hears=False, exit=-15, by="terminate"),
    Misdeed("silent-initialize", ("silent-initialize",), echo="nothing", hears=False),
    Misdeed("silent-list", ("silent-list",), echo="nothing", hears=False),
    Misdeed("silent-call", ("silent-call",), echo="nothing"),
    Misdeed("dies-on-call", ("die-on-call=2",)),
    Misdeed("dies-in-answer", ("die-in-answer",), echo="fails", hears=False, exit=None),
    Misdeed("dies-idle", ("die-idle",), echo="either", hears=False, exit=None),
    Misdeed("freezes", ("freeze-on-call",), echo="nothing"),
    Misdeed("closes-stdin", ("close-stdin",), echo="nothing", hears=False, exit=None),
    Misdeed("closes-stdout", ("close-stdout",), echo="either", hears=False, exit=None),
    Misdeed("changes-tools", ("change-tools",)),
    Misdeed("huge-result", ("huge-result",)),
    Misdeed("garbage", ("garbage",)),
    Misdeed("answers-twice", ("answer-twice",)),
    Misdeed("floods-stderr", ("flood-stderr=20",)),
    Misdeed("floods-stdout", ("flood-stdout=20",)),
    Misdeed("floods-notifications", ("flood-notifications=20",)),
    Misdeed("floods-a-line", ("flood-line=20",), echo="nothing", hears=False, exit=None),
    Misdeed(
        "everything",
        ("ignore-eof", "ignore-term", "runaway", "garbage", "answer-twice", "flood-stderr=20"),
        exit=-9,
        by="kill",
    ),
)

# Those that do not end by themselves: what is ended in yet another way is ended of these.
STUBBORN = tuple(each for each in MISDEEDS if each.by != "end_of_input" or each.name == "freezes")
