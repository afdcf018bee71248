"""What the tests of real editors' clients share: the model's answers, and readings of a report."""

from __future__ import annotations

from typing import Any

from support.model_server import Answer, Request, last_user_text

# Nine lines, which is more than fits into a message.
LONG = "\n".join(f"line {number}" for number in range(9))

# What is heard of a prompt that reads the notes, as `told` tells it.
READS_THE_NOTES = [
    ("session/state", "running"),
    ("session/toolCall", {"path": "notes.txt"}),
    ("session/toolResult", "1\tpelican"),
    ("session/delta reasoning", "Hm."),
    ("session/delta text", "It says pelican."),
    ("session/done", "end_turn"),
    ("session/state", "idle"),
]

# What that prompt is answered with.
RESULT_OF_READING = {
    "turn": 1,
    "text": "It says pelican.",
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "outputTokens": 2},
    "steps": 2,
    "messages": [0, 3],
}

# What comes of it in pieces, under a token for partial results.
PIECES_OF_READING = [("pieces reasoning", "Hm."), ("pieces text", "It says pelican.")]

# What is shown of its progress.
WORK_OF_READING = [
    ("work begin", "assistant · p"),
    ("work report", "waiting for the model"),
    ("work report", 'read {"path":"notes.txt"}'),
    ("work report", "waiting for the model"),
    ("work report", "thinking"),
    ("work report", "answering"),
    ("work end", "end_turn"),
]

# What is heard of a slow prompt that was cancelled.
CANCELLED = [
    ("session/state", "running"),
    ("session/delta text", "One two"),
    ("session/done", "cancelled"),
    ("session/state", "idle"),
]


def answer(request: Request) -> Answer:
    """Read the notes, speak slowly or at length where asked to; else say what was said."""
    said = last_user_text(request)
    if said == "Slow":
        return Answer("One two three", pause_after=2)
    if said == "Long":
        return Answer(LONG)
    if said != "Read the notes":
        return Answer(said)
    if request["messages"][-1]["role"] == "tool":
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        return Answer("It says pelican.", reasoning="Hm.", usage=usage)
    return Answer(calls=[("read", {"path": "notes.txt"})])


def told_in_whole(heard: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return, as `told` does, what was heard of a slow prompt that was cancelled.

    The cancel may have come between the two words that it begins with.
    """
    begun = ("session/delta text", "One")
    return [CANCELLED[1] if each == begun else each for each in told(heard)]


def told_of(what: str, heard: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return, as `told` does, what was heard of one thing alone, such as `work` or `pieces`."""
    return told([each for each in heard if each["method"] == what])


def told(heard: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return what was heard, in order, as short as it can be told.

    An event becomes the one thing that it is about; neighbouring pieces of a text become one.
    """
    short: list[tuple[str, Any]] = []
    for method, said in [_short(each["method"], each["params"]) for each in heard]:
        if short and _are_pieces(method, short[-1][0]):
            said = short.pop()[1] + said
        short.append((method, said))
    return short


def _are_pieces(method: str, last: str) -> bool:
    return method == last and method.split(" ")[0] in ("session/delta", "pieces")


def _short(method: str, params: dict[str, Any]) -> tuple[str, Any]:
    match method:
        case "session/state":
            return method, params["state"]
        case "session/delta" | "pieces":
            return f"{method} {params['kind']}", params["text"]
        case "session/toolCall":
            return method, params["arguments"]
        case "session/toolResult":
            return method, params["content"]
        case "session/done":
            return method, params["stopReason"]
        case "work":
            return f"{method} {params['kind']}", params.get("message") or params["title"]
        case _:
            return method, params
