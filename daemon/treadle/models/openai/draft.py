"""An answer while it grows: text, reasoning, calls in pieces, the reason it ended.

Owns how pieces of calls find each other, whatever the server leaves out.
Refuses to know where chunks come from and who listens.
"""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from treadle.models.openai.stream import CallDelta, Chunk, Delta, read_usage
from treadle.thread.message import ToolCall, Usage, decode_json

# How Z.ai and Anthropic say that the window, and no bound of ours, ended an answer.
_CUT_BY_WINDOW = "model_context_window_exceeded"


class Draft:
    """Collects chunks; read it at any time."""

    def __init__(self) -> None:
        self.finish_reason = ""
        self.is_cut_by_window = False
        self.usage: Usage | None = None
        self.refused = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_CallDraft] = []
        self._by_index: dict[int, _CallDraft] = {}

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def calls(self) -> list[ToolCall]:
        """Return the calls in the order in which they began, each with an id of its own."""
        finished, taken = [], set[str]()
        for draft in self._calls:
            call = draft.finish(taken)
            taken.add(call.id)
            finished.append(call)
        return finished

    def add(self, chunk: Chunk) -> tuple[str, str]:
        """Take a chunk; return the text and the reasoning that are new in it."""
        if chunk.usage:
            self.usage = read_usage(chunk.usage)
        if not chunk.choices:
            return "", ""
        choice = chunk.choices[0]
        if choice.finish_reason:
            self.is_cut_by_window = choice.finish_reason == _CUT_BY_WINDOW
            self.finish_reason = "length" if self.is_cut_by_window else choice.finish_reason
        return self._add_delta(choice.delta) if choice.delta is not None else ("", "")

    def _add_delta(self, delta: Delta) -> tuple[str, str]:
        text = delta.content or ""
        if delta.refusal:
            self.refused = True
            text += delta.refusal
        if text:
            self._text.append(text)
        reasoning = delta.reasoning_content or delta.reasoning or ""
        if reasoning:
            self._reasoning.append(reasoning)
        for piece in delta.tool_calls or ():
            self._draft_of(piece).add(piece)
        return text, reasoning

    def _draft_of(self, piece: CallDelta) -> _CallDraft:
        """Find the call that a piece belongs to, by index, by id, or else the last one.

        Gemini numbers every parallel call 0: another id is another call. Servers without
        numbers and ids send whole calls: a name begins one.
        """
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        elif piece.id:
            known = next((call for call in self._calls if call.id == piece.id), None)
        else:
            begins = piece.function is not None and bool(piece.function.name)
            known = self._calls[-1] if self._calls and not begins else None
        if known is None or (piece.id and known.id and piece.id != known.id):
            known = _CallDraft()
            self._calls.append(known)
        if piece.index is not None:
            self._by_index[piece.index] = known
        return known


class _CallDraft:
    def __init__(self) -> None:
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []

    def add(self, piece: CallDelta) -> None:
        self.id = self.id or piece.id or ""
        if piece.function is None:
            return
        self._name = self._name or piece.function.name or ""
        arguments = piece.function.arguments
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._arguments.append(text)

    def finish(self, taken: set[str]) -> ToolCall:
        missing = not self.id or self.id in taken
        identity = f"call_{os.urandom(12).hex()}" if missing else self.id
        raw = "".join(self._arguments)
        arguments = _arguments(raw)
        if arguments is None:
            return ToolCall(identity, self._name, raw_arguments=raw)
        return ToolCall(identity, self._name, arguments)


def _arguments(text: str) -> dict[str, Any] | None:
    """Read arguments; empty text means none, None that they are no object."""
    if not text.strip():
        return {}
    try:
        plain = decode_json(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return plain if isinstance(plain, dict) else None
