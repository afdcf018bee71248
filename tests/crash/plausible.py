"""Whether a thread can have come about: each message follows from those before it.

A person's texts are told apart, and the model is a function of the conversation, so that
whatever is doubled, out of order, changed or invented shows.
"""

from __future__ import annotations

from typing import Any

from crash.announced import Kept
from crash.story import Teller, content_of, says

# The text that stands for a result that a kill took, as far as it has to be told apart.
INTERRUPTED = ("This call was interrupted", "This call was stopped before it began")


def odd(thread: Kept, instance: str, teller: Teller) -> list[str]:
    """Tell what is in a thread that nobody said, or not there, or not then, or twice."""
    listener = _Listener(thread, instance, teller)
    found = []
    for place, message in enumerate(thread.messages):
        if why := listener.odd(message):
            found.append(f"{why} at {place}: {message}")
    promised = {*thread.accepted} - listener.heard
    found += [f"{text!r} was accepted, never said" for text in promised]
    if listener.open_calls:
        found.append(f"{listener.open_calls} have no results")
    if thread.interrupted_turn is not None:
        found.append(f"turn {thread.interrupted_turn} has no end")
    return found


class _Listener:
    """Hears one conversation, message by message."""

    def __init__(self, thread: Kept, instance: str, teller: Teller) -> None:
        self.heard: set[str] = set()
        self._thread = thread
        self._instance = instance
        self._teller = teller
        self._said_last = ""
        self._step = 0
        self.open_calls: list[tuple[str, str]] = []  # id and path

    def odd(self, message: dict[str, Any]) -> str:
        """Tell what is odd about the next message; nothing where all is well."""
        if message["role"] == "tool":
            return self._odd_result(message)
        left, self.open_calls = self.open_calls, []
        if left:
            return f"{left} have no results"
        if message["role"] == "user":
            return self._odd_person(message["content"])
        return self._odd_answer(message)

    def _odd_person(self, text: str) -> str:
        whose = self._teller.steered.get(text)
        whose = whose or self._teller.sent.get(text, {}).get("instance")
        is_new = text not in self.heard
        self.heard.add(text)
        self._said_last, self._step = text, 0
        if whose != self._instance:
            return "nobody said that here"
        return "" if is_new else "that was said once"

    def _odd_answer(self, message: dict[str, Any]) -> str:
        said = says(self._said_last, self._step)
        self._step += 1
        text = message.get("content", "")
        calls = message.get("tool_calls", [])
        self.open_calls = [(one["id"], one["arguments"]["path"]) for one in calls]
        if message.get("partial"):
            is_right = said.text.startswith(text) and not calls
        else:
            is_right = (text, tuple(path for _, path in self.open_calls)) == (said.text, said.paths)
        return "" if is_right else f"the model said {said}"

    def _odd_result(self, message: dict[str, Any]) -> str:
        if not self.open_calls:
            return "a result of no call"
        call_id, path = self.open_calls.pop(0)
        if message["tool_call_id"] != call_id:
            return f"the next call is {call_id}"
        ended = self._thread.ends.get(message["turn"])
        if message["content"] == content_of(path):
            return ""
        is_marked = message.get("is_error") and message["content"].startswith(INTERRUPTED)
        if is_marked and ended in ("cancelled", "interrupted"):
            return ""
        return f"{path} was read, and turn {message['turn']} is {ended}"
