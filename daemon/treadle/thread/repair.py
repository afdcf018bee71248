"""What may be sent to a model: a valid conversation, made of whatever a thread holds.

Owns the rules that every provider checks. Pure: refuses to know files, providers, compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from treadle.thread.message import Content, Message, ToolCall

# What a model reads in the place of a result that never came: whether there were effects.
INTERRUPTED_TEXT = (
    "This call was interrupted before its result was recorded. "
    "It may have had effects: look before repeating it."
)
NEVER_ALLOWED_TEXT = "This call was never allowed by a person, so it did not run."
NOT_RUN_TEXT = "This call was stopped before it began, so it did not run."
# Some providers refuse a result that says nothing.
EMPTY_RESULT_TEXT = "(no output)"
# OpenAI refuses longer ids; only ids made here are held to it.
ID_LENGTH = 40


def view(messages: Iterable[Message]) -> list[Message]:
    """Return what may be sent to any provider.

    Each assistant message's calls are followed by exactly one result per call, in the order of
    the calls; call ids are distinct; no message says nothing; there is no system message.
    A result belongs to the last assistant message before it, by its id, even where a person's
    message came between; what belongs to no call, or to an answered one, is dropped.

    Contract: deterministic and idempotent; a valid conversation comes back unchanged; what is
    kept of the messages between steps keeps its order; the start of the view does not depend on
    what comes later, except for results of the step that is still open.
    """
    kept: list[Message] = []
    ids = _Ids()
    step: _Step | None = None
    for message in messages:
        if message.role == "tool":
            if step is not None:
                step.answer(message)
        elif message.role == "system" or _says_nothing(message):
            continue
        elif message.role == "assistant":
            if step is not None:
                kept += step.messages()
            step = _Step(message, ids) if message.tool_calls else None
            if step is None:
                kept.append(message)
        else:
            (kept if step is None else step.later).append(_without_calls(message))
    return kept if step is None else kept + step.messages()


def distinct_calls(calls: Sequence[ToolCall], before: Sequence[Message]) -> list[ToolCall]:
    """Return calls whose ids no call before them has, as `view` would make them.

    Some servers number the calls of each answer anew, and other servers refuse what that makes.

    Args:
        calls: those of one answer.
        before: the conversation that it answers.
    """
    if not calls:
        return []
    ids = _Ids()
    ids.take(call.id for message in before for call in message.tool_calls)
    return [ids.distinct(call) for call in calls]


def interrupted_result(call: ToolCall) -> Message:
    """Make the result of a call whose own result was never recorded."""
    return Message("tool", INTERRUPTED_TEXT, tool_call_id=call.id, is_error=True)


def denied_result(call: ToolCall) -> Message:
    """Make the result of a call that nobody had allowed when its turn ended."""
    return Message("tool", NEVER_ALLOWED_TEXT, tool_call_id=call.id, is_error=True)


def unanswered_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls at the end of a conversation that still wait for their results.

    There are none once anything but results follows the calls.
    """
    answered: list[str] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        answered.append(message.tool_call_id)
    else:
        return []
    if message.role != "assistant":
        return []
    return [call for call in message.tool_calls if not _take(answered, call.id)]


class _Step:
    """An assistant message with calls, its results, and what a person said meanwhile."""

    def __init__(self, message: Message, ids: _Ids) -> None:
        self._asked = message.tool_calls
        self._calls = [ids.distinct(call) for call in self._asked]
        self._results: list[Message | None] = [None] * len(self._calls)
        changed = any(new is not old for new, old in zip(self._calls, self._asked, strict=True))
        self._message = (
            msgspec.structs.replace(message, tool_calls=self._calls) if changed else message
        )
        self.later: list[Message] = []

    def answer(self, result: Message) -> None:
        """Take a result for the first call of its id that has none; drop it otherwise."""
        for index, call in enumerate(self._asked):
            if call.id == result.tool_call_id and self._results[index] is None:
                self._results[index] = _fit(result, self._calls[index])
                return

    def messages(self) -> list[Message]:
        results = (
            result or interrupted_result(call)
            for call, result in zip(self._calls, self._results, strict=True)
        )
        return [self._message, *results, *self.later]


class _Ids:
    """Hands out call ids that are distinct within one conversation."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, ids: Iterable[str]) -> None:
        """Note ids that are in use already."""
        self._taken.update(ids)

    def distinct(self, call: ToolCall) -> ToolCall:
        """Return the call itself while its id is new, else a copy with one that is."""
        new_id = call.id
        while not new_id or new_id in self._taken:
            number = self._next.get(call.id, 1) + 1
            self._next[call.id] = number
            suffix = f"-{number}"
            new_id = (call.id or "call")[: ID_LENGTH - len(suffix)] + suffix
        self._taken.add(new_id)
        return call if new_id == call.id else msgspec.structs.replace(call, id=new_id)


def _fit(result: Message, call: ToolCall) -> Message:
    """Give a result its call's id and something to say, where it lacks them."""
    result = _without_calls(result)
    if result.tool_call_id != call.id:
        result = msgspec.structs.replace(result, tool_call_id=call.id)
    if _is_blank(result.content):
        result = msgspec.structs.replace(result, content=EMPTY_RESULT_TEXT)
    return result


def _says_nothing(message: Message) -> bool:
    if message.role == "assistant" and message.tool_calls:
        return False
    return _is_blank(message.content)


def _without_calls(message: Message) -> Message:
    """Only an assistant calls; a line of another role with calls is somebody's mistake."""
    return msgspec.structs.replace(message, tool_calls=[]) if message.tool_calls else message


def _is_blank(content: Content) -> bool:
    if isinstance(content, str):
        return not content or content.isspace()
    return all(block.get("type") == "text" and _is_blank_text(block) for block in content)


def _is_blank_text(block: dict[str, Any]) -> bool:
    text = block.get("text")
    return not isinstance(text, str) or not text or text.isspace()


def _take(answered: list[str], call_id: str) -> bool:
    """Use up one result of this id."""
    if call_id not in answered:
        return False
    answered.remove(call_id)
    return True
