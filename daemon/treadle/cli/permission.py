"""What the commands for people say when a call is to be allowed, and which words are an answer.

Owns the words. Refuses to know where they are shown and typed.
"""

from __future__ import annotations

from typing import Any

PERMISSION = "session/requestPermission"
QUESTIONS = "session/ask"

# What a person can type; whatever else is typed is no answer.
_OUTCOMES = {
    "y": "allow_once",
    "yes": "allow_once",
    "a": "allow_session",
    "always": "allow_session",
    "n": "deny",
    "no": "deny",
}

# How a question is said to have ended, to those who did not answer it.
SETTLED = {
    "allow_once": "allowed, by another client",
    "allow_session": "allowed for this session, by another client",
    "deny": "denied, by another client",
    "answered": "answered, by another client",
    "unanswered": "nobody answered in time",
    "withdrawn": "the question is moot by now",
}

# A screen's worth; whoever wants all of it says no and looks.
_PREVIEW_LINES = 40


def wanted(params: dict[str, Any]) -> str:
    """Say what a call would do: its line, and the whole of it below where there is more."""
    who = params["agent"] + (f", task {params['task']}," if "task" in params else "")
    head = f"{who} wants: {params['detail']}"
    lines = str(params.get("preview", "")).rstrip("\n").split("\n")
    more = len(lines) - _PREVIEW_LINES
    shown = lines[:_PREVIEW_LINES] + ([f"… {more:,} more lines"] if more > 0 else [])
    return "\n".join([head, *(f"  {line}" for line in shown if line or len(shown) > 1)])


def how_to_answer(params: dict[str, Any]) -> str:
    """Say what can be typed, and what the widest answer would allow."""
    for_session = f"a: allow for this session: {params['covers']}"
    return f"y: allow it once    n: do not allow it\n{for_session}"


def outcome_of(text: str) -> str | None:
    """Return the outcome that a person's word means, if it means one."""
    return _OUTCOMES.get(text.strip().casefold())


def refused(params: dict[str, Any]) -> str:
    """Say that a call was denied because nobody is here to be asked, and how it can be allowed."""
    return (
        f"{params['call']['name']} was not allowed, for nobody can be asked here; run this in a "
        f"terminal to be asked, or set `permissions: auto` in the file of agent {params['agent']}"
    )


def question_of(question: dict[str, Any]) -> str:
    """Return a model's question with the answers that it offers, numbered."""
    options = question.get("options") or []
    offered = [f"  {number}: {option}" for number, option in enumerate(options, 1)]
    return "\n".join([question["text"], *offered])


def answer_of(question: dict[str, Any], text: str) -> str:
    """Return a person's answer; a number means the option of that number."""
    options = question.get("options") or []
    word = text.strip()
    numbered = {str(number): option for number, option in enumerate(options, 1)}
    return str(numbered.get(word, word))
