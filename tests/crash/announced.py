"""The vocabulary of a crash: what a daemon announced, and what must then be in a thread.

Owns the promises: which message has to be on disk once something was told. Refuses to know who
told it to whom, and when the kill came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from crash.mortal import Mortal


@dataclass
class Kept:
    """A thread, as its raw file tells it.

    Attributes:
        messages: the message lines; an index is an ordinal.
        starts: the records of turns' starts, by number.
        ends: how turns ended, by number.
        accepted: the texts that were promised to be said.
        torn_bytes: of half a line at the end.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    starts: dict[int, dict[str, Any]] = field(default_factory=dict)
    ends: dict[int, str] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)
    torn_bytes: int = 0

    @property
    def interrupted_turn(self) -> int | None:
        """The turn that has begun and not ended."""
        return next((turn for turn in self.starts if turn not in self.ends), None)

    def unanswered_calls(self) -> list[str]:
        """The calls at the end that have no result."""
        for answered, message in enumerate(reversed(self.messages)):
            if message["role"] != "tool":
                calls = message.get("tool_calls", [])
                return [call["id"] for call in calls][answered:]
        return []

    def turn_of(self, key: str) -> int | None:
        """The turn of a prompt that had a key."""
        turns = [turn for turn, start in self.starts.items() if start.get("key") == key]
        assert len(turns) < 2, f"turns {turns} have the key {key!r}"
        return turns[0] if turns else None

    def ordinal_of(self, text: str) -> int | None:
        """Where a person's text stands."""
        places = self.places(role="user", text=text)
        return places[0] if places else None

    def places(self, *, role: str, turn: int | None = None, text: str | None = None) -> list[int]:
        """Where messages stand that are like this."""
        return [
            place
            for place, message in enumerate(self.messages)
            if message["role"] == role
            and turn in (None, message.get("turn"))
            and text in (None, message.get("content", ""))
        ]


def kept(data: bytes) -> Kept:
    """Read a thread's file, by the format's words alone; a bad line fails."""
    thread = Kept()
    *lines, torn = data.split(b"\n")
    if _is_whole(torn):
        lines.append(torn)  # only its line end is missing
    else:
        thread.torn_bytes = len(torn)
    for line in map(json.loads, lines):
        if "role" in line:
            thread.messages.append(line)
        elif "steered" in line:
            thread.accepted.append(line["steered"]["message"]["content"])
        elif line.get("turn", {}).get("event") == "start":
            thread.starts[line["turn"]["number"]] = line["turn"]
        elif line.get("turn", {}).get("event") == "end":
            thread.ends[line["turn"]["number"]] = line["turn"]["stop_reason"]
    return thread


@dataclass(frozen=True)
class Announced:
    """Something that was told, and the message that must be there for it.

    Args:
        how: the notification, or the request whose reply told it.
        turn: the message's turn, where it is known.
        role: the message's role.
        text: its content; None for any.
        call: a call that it makes: id and arguments.
        answers: the id of the call that it answers.
        stop_reason: how its turn has to have ended, where that was told.
        ordinals: of the turn's first and last message, where they were told.
        has_place: it was told in the order of the messages.
    """

    how: str
    turn: int | None
    role: str
    text: str | None = None
    call: tuple[str, Any] | None = None
    answers: str = ""
    stop_reason: str | None = None
    ordinals: tuple[int, int] | None = None
    has_place: bool = True

    def __str__(self) -> str:
        said = [self.text, self.call, self.stop_reason, self.ordinals]
        return f"{self.how} of turn {self.turn}: {self.role} {[one for one in said if one]}"

    def places(self, thread: Kept) -> list[int]:
        """Where the message stands."""
        return [
            place
            for place in thread.places(role=self.role, turn=self.turn, text=self.text)
            if self.answers == thread.messages[place].get("tool_call_id", "")
            and (self.call is None or self.call in _calls(thread.messages[place]))
        ]

    def problem(self, thread: Kept) -> str:
        """Tell what is not as it was told; nothing where all of it is."""
        places = self.places(thread)
        if not places:
            return f"is lost: {self}"
        if self.role == "tool" and len(places) > 1:
            return f"stands at each of {places}: {self}"
        if self.stop_reason is not None and thread.ends.get(self.turn or 0) != self.stop_reason:
            return f"ended otherwise: {self}"
        if self.ordinals is not None:
            of_turn = [
                place
                for place, message in enumerate(thread.messages)
                if message.get("turn") == self.turn
            ]
            if of_turn != list(range(self.ordinals[0], self.ordinals[1] + 1)):
                return f"has the ordinals {of_turn}: {self}"
        return ""


def lost(announced: list[Announced], thread: Kept) -> Iterator[str]:
    """Yield what was told and is not there, or not once, or not in the order of telling."""
    last = -1
    for one in announced:
        if problem := one.problem(thread):
            yield problem
        elif one.has_place:
            later = [place for place in one.places(thread) if place >= last]
            if not later:
                yield f"stands before what was told earlier, at {last}: {one}"
            last = min(later, default=last)


def announced_by(client: Mortal) -> dict[str, list[Announced]]:
    """Tell what a daemon announced, for each instance, in the order in which it was read."""
    told: dict[str, list[Announced]] = {}
    for message in client.log:
        if "method" in message:
            params = message["params"]
            told.setdefault(params["instance"], []).extend(_of_event(message["method"], params))
        elif "result" in message and message["id"] in client.sent:
            method, params = client.sent[message["id"]]
            if method in ("session/prompt", "session/steer"):
                found = _of_reply(method, params, message["result"])
                told.setdefault(params["instance"], []).extend(found)
    return told


def _of_event(method: str, params: dict[str, Any]) -> Iterator[Announced]:
    turn = params.get("turn")
    if turn is None:
        return
    if method in ("session/state", "session/delta"):
        yield Announced(method, turn, "user", has_place=False)
    elif method == "session/toolCall":
        call = (params["id"], params["arguments"])
        yield Announced(method, turn, "assistant", call=call)
    elif method == "session/toolResult":
        yield Announced(method, turn, "tool", params["content"], answers=params["id"])
    elif method == "session/done":
        role, text = ("assistant", params["text"]) if params["text"] else ("user", None)
        stop_reason = params["stopReason"]
        has_place = bool(text) and stop_reason == "end_turn"
        yield Announced(*(method, turn, role, text), stop_reason=stop_reason, has_place=has_place)


def _of_reply(method: str, params: Any, result: dict[str, Any]) -> Iterator[Announced]:
    turn = result.get("turn")
    if method == "session/steer":
        if result.get("injected"):
            yield Announced(method, turn, "user", params["text"], has_place=False)
    elif turn is not None and result.get("messages"):
        yield Announced(
            *(method, turn, "user", params["prompt"]),
            stop_reason=result["stopReason"],
            ordinals=tuple(result["messages"]),
            has_place=False,
        )


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _calls(message: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(call["id"], call.get("arguments", {})) for call in message.get("tool_calls", [])]
