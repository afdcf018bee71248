"""What is said to the daemon in one of its lives, and what its model answers.

The model is a pure function of the conversation: what a person said last tells it which files to
read in which step, how many words to answer with, and how slowly. So whoever holds a thread can
tell what has to stand after each of its messages. No two texts are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from crash.mortal import Mortal
from support.model_server import Answer, Request, last_user_text
from support.person import pair

# A word of the answer takes this long where the person asks for slow words: long enough for a
# cancel to come in between, and nothing depends on it.
SLOW_WORD_SECONDS = 0.004

_TEXT = re.compile(
    r"(?P<name>[\w.-]+): read (?P<reads>[\d ]*), say (?P<words>\d+)(?P<slow> slowly)?"
)


@dataclass(frozen=True)
class Say:
    """Prompt, and wait for the outcome unless the next act is to come meanwhile."""

    reads: tuple[int, ...] = ()  # how many files in each step
    words: int = 2
    slowly: bool = False
    has_key: bool = False
    waits: bool = True


@dataclass(frozen=True)
class Steer:
    """Say something into the turn of the prompt before, once it is heard of."""

    reads: tuple[int, ...] = ()
    words: int = 1


@dataclass(frozen=True)
class Cancel:
    """Cancel the turn of the prompt before, once it is heard of."""


Act: TypeAlias = Say | Steer | Cancel
Story: TypeAlias = dict[str, list[Act]]
"""What is said to each instance, in order; the instances side by side."""

# Everything that a session tells of, in one life.
WHOLE: Story = {
    "tools": [Say((2, 1), has_key=True), Say((1,))],
    "steered": [Say((3, 1), waits=False), Steer((1,)), Say(has_key=True)],
    "cancelled": [Say((1,), words=20, slowly=True, waits=False), Cancel(), Say((2,), has_key=True)],
}


def any_story(chance: random.Random) -> Story:
    """Make a story of one to four sessions."""
    return {
        instance: [act for _ in range(chance.randint(1, 3)) for act in _any_acts(chance)]
        for instance in chance.sample(["a", "b", "c", "d"], chance.randint(1, 4))
    }


def _any_acts(chance: random.Random) -> Iterator[Act]:
    reads = tuple(chance.randint(1, 4) for _ in range(chance.randint(0, 3)))
    interrupted: Literal["", "steer", "cancel", "queue"] = chance.choice(
        ["", "", "", "steer", "steer", "cancel", "queue"]
    )
    slowly = chance.random() < 0.3
    has_key = chance.random() < 0.5
    yield Say(reads, chance.randint(1, 12), slowly, has_key, waits=not interrupted)
    if interrupted == "steer":
        for _ in range(chance.randint(1, 3)):
            yield Steer(tuple(chance.randint(1, 2) for _ in range(chance.randint(0, 2))))
    elif interrupted == "cancel":
        yield Cancel()


@dataclass(frozen=True)
class Said:
    """What the model says next: a text, or calls of `read`, or both."""

    name: str
    text: str
    paths: tuple[str, ...] = ()
    slowly: bool = False


def says(said_last: str, step: int) -> Said:
    """Tell what the model says in a step, from 0, after what a person said last."""
    asked = _TEXT.fullmatch(said_last)
    assert asked, f"nobody says {said_last!r}"
    name, reads = asked["name"], asked["reads"].split()
    if step < len(reads):
        text = f"Step {step} of {name}." if step % 2 else ""
        return Said(name, text, tuple(f"{name}-{step}-{i}.txt" for i in range(int(reads[step]))))
    words = " ".join(f"word{i}" for i in range(int(asked["words"])))
    return Said(name, f"Answer to {name}: {words}", slowly=bool(asked["slow"]))


def content_of(path: str) -> str:
    """What `read` returns of a file."""
    return f"1\tcontent of {path}"


def answer(request: Request) -> Answer:
    """Answer as a provider."""
    spoken = request["messages"]
    last = max(place for place, message in enumerate(spoken) if message["role"] == "user")
    step = sum(message["role"] == "assistant" for message in spoken[last:])
    said = says(last_user_text(request), step)
    return Answer(
        said.text,
        calls=[("read", {"path": path}) for path in said.paths],
        call_prefix=f"{said.name}-{step}-",
        interval_seconds=SLOW_WORD_SECONDS if said.slowly else 0,
        usage={"prompt_tokens": len(spoken), "completion_tokens": 1},
    )


class Teller:
    """Tells stories to the daemons of one data folder.

    Args:
        name: begins every text, so that no two tellers say the same.
        workspace: where the files lie that are read.

    Attributes:
        sent: the params of every prompt, by its text.
        steered: the instance of every steered text.
    """

    def __init__(self, name: str, workspace: Path) -> None:
        self.name = name
        self.sent: dict[str, dict[str, Any]] = {}
        self.steered: dict[str, str] = {}
        self._workspace = workspace
        self._count = 0

    async def tell(self, client: Mortal, story: Story) -> None:
        """Tell all of a story, or as much of it as the daemon lives to hear."""
        async with asyncio.TaskGroup() as group:
            for instance, acts in story.items():
                group.create_task(self._tell_one(client, instance, acts))

    def prompt(self, instance: str, say: Say) -> dict[str, Any]:
        """Make up a prompt."""
        text = self._text(say.reads, say.words, say.slowly)
        params = pair(instance, prompt=text)
        if say.has_key:
            params["key"] = f"key of {text}"
        self.sent[text] = params
        return params

    def _text(self, reads: tuple[int, ...], words: int, slowly: bool = False) -> str:
        """Make up a text, and the files that it will have the model read."""
        self._count += 1
        text = f"{self.name}.{self._count}: read {' '.join(map(str, reads))}, say {words}"
        for step in range(len(reads)):
            for path in says(text, step).paths:
                (self._workspace / path).write_text(f"content of {path}")
        return text + " slowly" * slowly

    async def _tell_one(self, client: Mortal, instance: str, acts: list[Act]) -> None:
        with contextlib.suppress(EOFError):
            outcomes = []
            heard = _nothing
            for act in acts:
                if isinstance(act, Say):
                    heard = _news_of(client, instance)
                    outcome = client.ask("session/prompt", self.prompt(instance, act))
                    outcomes.append(outcome)
                    if act.waits:
                        await outcome
                    continue
                await client.until(heard)
                if isinstance(act, Cancel):
                    await client.request("session/cancel", pair(instance))
                    continue
                text = self._text(act.reads, act.words)
                self.steered[text] = instance
                await client.request("session/steer", pair(instance, text=text))
            for outcome in outcomes:
                await outcome


def _nothing() -> bool:
    return True


def _news_of(client: Mortal, instance: str) -> Callable[[], bool]:
    """Tell, later, whether a turn that has not begun yet has said something."""
    known = len(client.events)
    telling = ("session/delta", "session/toolCall", "session/done")

    def heard() -> bool:
        return any(
            event["method"] in telling and event["params"]["instance"] == instance
            for event in client.events[known:]
        )

    return heard
