"""A provider that refuses what strict providers refuse.

Owns the rules of a conversation that may be sent. Refuses to know how it came about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.model_server import Answer, Request


class StrictModel:
    """Answers as `answer` does, but refuses a spoilt conversation with status 400.

    Attributes:
        refused: why, for each request that was refused, and the request.
    """

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self._answer = answer
        self.refused: list[tuple[str, Request]] = []

    def __call__(self, request: Request) -> Answer:
        """Answer a request, or refuse it."""
        why = what_is_wrong(request["messages"])
        if not why:
            return self._answer(request)
        self.refused.append((why, request))
        return Answer(status=400, error={"message": why, "type": "invalid_request_error"})


def what_is_wrong(messages: list[dict[str, Any]]) -> str:
    """Tell the first thing that is wrong with a conversation; nothing where all is well."""
    spoken = messages[1:] if messages[:1] and messages[0]["role"] == "system" else messages
    if not spoken or spoken[0]["role"] != "user":
        return "the conversation does not begin with a user's message"
    if spoken[-1]["role"] not in ("user", "tool"):
        return "the conversation ends with what the model said itself"
    open_calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(spoken):
        role, calls = message["role"], [call["id"] for call in message.get("tool_calls") or ()]
        if role not in ("user", "assistant", "tool"):
            return f"message {place} has the role {role}"
        if role == "tool":
            if message["tool_call_id"] not in open_calls[:1]:
                return f"message {place} is no result of the next call of {open_calls}"
            open_calls.pop(0)
        elif open_calls:
            return f"message {place} comes before the results of {open_calls}"
        if not message.get("content") and not calls:
            return f"message {place} is empty"
        if calls and role != "assistant":
            return f"message {place} calls tools and is a {role}'s"
        if len({*calls}) < len(calls) or seen & {*calls}:
            return f"message {place} uses a call's id again: {calls}"
        seen |= {*calls}
        open_calls += calls
    return f"nothing answers {open_calls}" if open_calls else ""
