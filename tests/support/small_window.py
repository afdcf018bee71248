"""Conversations that fill a small window, and a model that sums them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.daemon import Daemon
from support.model_server import Answer, Request, last_user_text
from support.person import pair, write_agent
from treadle.compaction.request import INSTRUCTIONS

SUMMARY = """\
## Objective
Count apples.
## Decisions
Nothing.
## Work done
Apples were counted.
## Identifiers (verbatim)
basket-7741
## Outstanding
Nothing."""

# What a person says who has much to say.
LONG = "apples and pears in the basket " * 40


def is_summary(request: Request) -> bool:
    """Whether a summary is asked for."""
    return bool(request["messages"][0]["content"] == INSTRUCTIONS)


def summing_up(
    summary: Callable[[], Answer] = lambda: Answer(SUMMARY),
) -> Callable[[Request], Answer]:
    """Answer with the first words of what was said, and where that is asked for sum up."""

    def answer(request: Request) -> Answer:
        if is_summary(request):
            return summary()
        return Answer(f"Re {' '.join(last_user_text(request).split()[:2])}")

    return answer


def write_counting(**compaction: object) -> None:
    """Write the agent `counter`, whose window is small."""
    said = ", ".join(f"{key}: {value}" for key, value in {"window": 4000, **compaction}.items())
    write_agent("counter", "You count.", tools="[read]", compaction=f"{{{said}}}")


def counter(instance: str = "a", **members: Any) -> dict[str, Any]:
    """Return params for a session of `counter`."""
    return pair(instance, "counter", **members)


async def told(client: Daemon, count: int, start: int = 0, instance: str = "a") -> None:
    """Say something long several times."""
    for number in range(start, start + count):
        await client.request("session/prompt", counter(instance, prompt=f"{number} {LONG}"))
