"""A conversation far longer than its model's window, and a provider that counts and refuses.

Owns what is said over hundreds of turns, a model that answers out of nothing but what it is sent,
and a summariser that keeps identifiers as a good one would. Refuses to know who compacts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, pair, stored, write_agent
from support.strict_model import what_is_wrong
from treadle.compaction.request import INSTRUCTIONS

WINDOW = 8_000
AGENT = "keeper"

# What a person mentions once, early, and asks for at the very end.
NEEDLES = {
    "harbour ticket": "HRB-4471-QX",
    "commit of the fix": "9f3ac01b77de",
    "address of the archive": "https://archive.example.org/box/7719",
    "path of the ledger": "/srv/ledger/2031/q3.csv",
    "name of the court file": "case_2290_b",
    "mail of the caretaker": "m.okoro@example.org",
    "serial of the pump": "PMP-00-881-Z",
    "account of the choir": "DE44-5001-0517",
}

# A needle in each third turn, from the second on: all are old long before the end.
FIRST_NEEDLE, NEEDLE_EVERY = 2, 3

FILES = 40
_WORDS = ("rope", "sand", "lamp", "gate", "hill", "boat", "salt", "wind", "door", "milk", "coat")
_TOPICS = "|".join(map(re.escape, NEEDLES))
_KNOWN = re.compile(rf"(?:the|The) ({_TOPICS}) is (\S+?)[.,]?(?=\s|$)")
_ASKED = re.compile(rf"What is the ({_TOPICS})\?")
_FILE = re.compile(r"notes-\d+\.txt")

# As many file names as a careful summary mentions.
_FILES_KEPT = 6


@dataclass
class Figures:
    """What a conversation came to.

    Attributes:
        turn_calls: how many calls of turns were answered.
        turn_tokens: what all calls of turns were sent and said.
        summaries: how many calls for summaries were answered.
        summary_tokens: what those were sent and said.
        largest: how large the largest request was, in tokens as the provider counts.
        sizes: how large the thread's file was after each turn, in bytes.
        ends: the compactions that were told to have ended.
        answers: what was said of each topic at the end.
    """

    turn_calls: int = 0
    turn_tokens: int = 0
    summaries: int = 0
    summary_tokens: int = 0
    largest: int = 0
    sizes: list[int] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def summary_share(self) -> float:
        """The part of all tokens that summaries cost."""
        return self.summary_tokens / max(1, self.turn_tokens + self.summary_tokens)


class Provider:
    """Answers within a window that it counts for itself, and refuses what is larger or spoilt.

    Args:
        heavier: how many tokens it counts for one of the stated approximation.
        tells_usage: whether it reports what it counted.

    Attributes:
        refused: why, for each request that was refused for anything but its size.
        overflows: how many were refused for their size.
    """

    def __init__(self, heavier: float = 1.0, tells_usage: bool = True) -> None:
        self.figures = Figures()
        self.refused: list[str] = []
        self.overflows = 0
        self._heavier = heavier
        self._tells_usage = tells_usage

    def __call__(self, request: Request) -> Answer:
        """Answer a request, or refuse it."""
        if why := what_is_wrong(request["messages"]):
            self.refused.append(why)
            return Answer(status=400, error={"message": why, "type": "invalid_request_error"})
        asked = int(tokens_in(request) * self._heavier)
        if asked > WINDOW:
            self.overflows += 1
            told = f"This model's maximum context length is {WINDOW} tokens. However, your "
            error = {"code": "context_length_exceeded", "type": "invalid_request_error"}
            told += f"messages resulted in {asked} tokens. Please reduce their length."
            return Answer(status=400, error={**error, "message": told})
        answer = summary_of(request) if is_summary(request) else self._answer(request)
        said = int(len("".join(answer.text) + str(answer.calls)) / 4 * self._heavier)
        self._count(request, asked, said)
        if self._tells_usage:
            answer.usage = {"prompt_tokens": asked, "completion_tokens": said}
        return answer

    def _count(self, request: Request, asked: int, said: int) -> None:
        self.figures.largest = max(self.figures.largest, asked)
        if is_summary(request):
            self.figures.summaries += 1
            self.figures.summary_tokens += asked + said
        else:
            self.figures.turn_calls += 1
            self.figures.turn_tokens += asked + said

    def _answer(self, request: Request) -> Answer:
        """Read what the person names and was not read yet; then answer."""
        said = last_user_text(request)
        first, *then = said.partition(" then ")
        results = 0
        for message in reversed(request["messages"]):
            if message["role"] == "user":
                break
            results += message["role"] == "tool"
        now, later = _FILE.findall(first), _FILE.findall("".join(then))
        wanted = now if not results else later if results == len(now) else []
        if wanted:
            calls: list[tuple[str, str | dict[str, Any]]]
            calls = [("read", {"path": name}) for name in wanted]
            return Answer(calls=calls, call_prefix=f"call_{self.figures.turn_calls}_")
        if asked := _ASKED.search(said):
            return Answer([known_in(request).get(asked[1], "I do not know.")])
        return Answer([f"Noted. {_filler(random.Random(said), 30)}"])


def is_summary(request: Request) -> bool:
    """Whether a summary is asked for."""
    return bool(request["messages"][0]["content"] == INSTRUCTIONS)


def known_in(request: Request) -> dict[str, str]:
    """Return what a model may know of the topics: what stands in what it is sent."""
    return dict(_KNOWN.findall("\n".join(_text(one) for one in request["messages"])))


def summary_of(request: Request) -> Answer:
    """Sum up as a good model would: each identifier is kept, and few words."""
    text = last_user_text(request)
    known = dict(_KNOWN.findall(text))
    files = list(dict.fromkeys(_FILE.findall(text)))[-_FILES_KEPT:]
    identifiers = [f"- the {topic} is {value}" for topic, value in known.items()]
    identifiers += [f"- {name}: a file of notes that was read" for name in files]
    return Answer(
        [
            "## Objective\nThe person keeps notes, and asks for them later.\n"
            "## Decisions\nNothing.\n"
            f"## Work done\nFiles of notes were read; {len(known)} things are to be remembered.\n"
            "## Identifiers (verbatim)\n" + "\n".join(identifiers or ["Nothing."]) + "\n"
            "## Outstanding\nNothing."
        ]
    )


def tokens_in(request: Request) -> int:
    """Count a request by the rule that the design states, from the wire alone."""
    lines = []
    for message in request["messages"]:
        parts = [_text(message)] if _text(message) else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            parts.append(f"{function['name']}({function['arguments']}) -> {call['id']}")
        if message["role"] == "tool":
            parts.append(f"(answering {message['tool_call_id']})")
        lines.append(f"{message['role']}: {' '.join(parts)}")
    tools = [tool["function"] for tool in request.get("tools") or ()]
    in_json = json.dumps(tools, separators=(",", ":"), ensure_ascii=False) if tools else ""
    return len("\n".join(lines)) // 4 + 4 * len(lines) + len(in_json) // 4


def write_keeper(folder: Path, ladder: str = "faithful") -> None:
    """Write the agent whose window is small, and the files that it is to read."""
    chance = random.Random(0)
    folder.mkdir()
    for number in range(FILES):
        lines = [_filler(chance, 14) for _ in range(chance.choice([4, 10, 25, 60]))]
        (folder / f"notes-{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    write_agent(
        AGENT,
        "You keep notes for a person.",
        tools="[read]",
        sandbox="local",
        cwd=json.dumps(str(folder)),
        compaction=f"{{window: {WINDOW}, ladder: {ladder}}}",
    )


def prompts(turns: int) -> Iterator[str]:
    """Say what a person says: things to remember, much else, and questions at the end."""
    chance = random.Random(7)
    needles = {FIRST_NEEDLE + NEEDLE_EVERY * at: one for at, one in enumerate(NEEDLES.items())}
    for number in range(turns - len(NEEDLES)):
        filler = _filler(chance, chance.choice([10, 30, 120]))
        if number in needles:
            topic, value = needles[number]
            yield f"{number}. Remember that the {topic} is {value}. {filler}"
        elif (way := chance.random()) < 0.5:
            names = [f"notes-{chance.randrange(FILES)}.txt" for _ in range(3)]
            both = " and ".join(names[:2]) if way < 0.15 else names[0]
            then = f" then {names[2]}" if way > 0.4 else ""
            yield f"{number}. Read {both}{then} of mine. {filler}"
        else:
            yield f"{number}. I think: {filler}"
    for topic in NEEDLES:
        yield f"What is the {topic}?"


@dataclass
class Held:
    """A conversation that was held: what the provider was sent, and what its file says."""

    requests: list[Request]
    lines: list[bytes]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The file's messages."""
        return [one for one in map(json.loads, self.lines) if "role" in one]

    @property
    def record_bytes(self) -> list[int]:
        """How long the record of each compaction is."""
        return [len(line) for line in self.lines if line.startswith(b'{"compacted"')]


async def held(folder: Path, turns: int, provider: Provider, ladder: str = "faithful") -> Held:
    """Hold a whole conversation with a daemon of its own."""
    write_keeper(folder, ladder)
    async with ModelServer(provider) as server, daemon(env=on(server)) as client:
        await _hold(client, provider.figures, turns)
    return Held(server.requests, stored(AGENT, "long").read_bytes().splitlines())


async def _hold(client: Daemon, figures: Figures, turns: int) -> None:
    """Hold the whole conversation; its last turns ask for what was said in its first."""
    path = stored(AGENT, "long")
    for prompt in prompts(turns):
        result = await client.request("session/prompt", pair("long", AGENT, prompt=prompt))
        figures.sizes.append(path.stat().st_size)
        if asked := _ASKED.fullmatch(prompt):
            figures.answers[asked[1]] = result["text"]
    figures.ends = client.of("session/compacted")


def _filler(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(one["text"] for one in content)
