"""Tools for a model that knows none: one JSON object per step, of a shape that is enforced.

Owns that shape, the words that explain it and the way back to text and calls. Pure: it knows
neither the process that serves the model nor the env.

A step is `{"tool": <name>, "arguments": {…}}` or, where no tool is needed, what the person
reads: `{"tool": "chat", "reply": <text>}`. The runtime turns the schema into a grammar, so the
members come in the order that stands here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from treadle.models.attachments import in_words
from treadle.models.completion import ToolSpec
from treadle.models.embedded.hints import callable_tools, named_paths
from treadle.thread.message import Message, ToolCall, clean

# More alternatives than this, and a model this small picks at random.
OFFERED = ("read", "glob", "grep", "edit", "shell")

# The branch that calls no tool. It has a name that says what it is for: offered "chat", the model
# takes "read" for a greeting.
CHAT = "chat"

# What the runtime's grammar understands of a JSON Schema; the rest would be ignored or refused.
_GRAMMAR_KEYS = frozenset({"type", "enum", "const", "items"})

ChatMessage: TypeAlias = dict[str, str]
"""A message as the endpoint takes it: `role` and `content`."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the model said in one step: a reply, or one call."""

    reply: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None


def offered(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Return the tools this model is told of, in the order of `OFFERED`."""
    by_name = {tool.name: tool for tool in tools}
    return [by_name[name] for name in OFFERED if name in by_name]


def step_schema(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the JSON Schema of the next step.

    Args:
        messages: the conversation; what it gives tools to work on says which may be called.
        tools: those that `offered` chose.
    """
    by_name = {tool.name: tool for tool in tools}
    paths = named_paths(messages)
    calls = [
        _branch(name, "arguments", _arguments(by_name[name], paths))
        for name in callable_tools(messages, list(by_name))
    ]
    return {"anyOf": [*calls, _branch(CHAT, "reply", {"type": "string"})]}


def tool_prompt(tools: Sequence[ToolSpec]) -> str:
    """Return the words that explain the shape; the same bytes for the same tools."""
    return "\n".join(
        (
            "Reply with one JSON object.",
            "Tools:",
            *(_line(tool) for tool in tools),
            f"- {CHAT}(reply): Talk to the user. Use it for greetings, names, questions, facts, "
            "writing: everything that names no file.",
            f'Format: {{"tool": "{CHAT}", "reply": "<your answer>"}} '
            'or {"tool": "<name>", "arguments": {...}}',
        )
    )


def flatten(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[ChatMessage]:
    """Return the conversation as plain messages, calls and results in the words of a step.

    Args:
        messages: a valid view: every call is followed by its result.
        tools: those that `offered` chose; with none, texts are sent as they are.
    """
    flat: list[ChatMessage] = []
    calls: dict[str, ToolCall] = {}
    for message in messages:
        calls.update((call.id, call) for call in message.tool_calls)
        flat += _flat(message, calls, bool(tools))
    if tools:
        head = flat.pop(0)["content"] + "\n\n" if flat and flat[0]["role"] == "system" else ""
        flat.insert(0, {"role": "system", "content": head + tool_prompt(tools)})
    return flat


def parse_step(text: str) -> Step:
    """Read a finished step.

    A step that was cut short, or a model that ignored its grammar, gives what can be read of
    its reply, and never a call.
    """
    try:
        plain = clean(json.loads(text, strict=False))
    except ValueError:
        return Step(reply=_cut_reply(text))
    if not isinstance(plain, dict) or plain.get("tool", CHAT) == CHAT:
        reply = plain.get("reply", "") if isinstance(plain, dict) else ""
        return Step(reply=reply if isinstance(reply, str) else "")
    arguments = plain.get("arguments")
    return Step(tool=str(plain["tool"]), arguments=arguments if isinstance(arguments, dict) else {})


class ReplyDecoder:
    """Decodes the `reply` member while it grows, whatever the pieces it comes in."""

    def __init__(self) -> None:
        self._held = ""
        self._in_reply = False
        self._ended = False

    def feed(self, text: str) -> str:
        """Take the next piece of the step; return the text of the reply that is now certain."""
        self._held += text
        if not self._in_reply:
            opening = _OPENING.match(self._held)
            if opening is None:
                return ""
            self._in_reply = True
            self._held = self._held[opening.end() :]
        return "" if self._ended else self._decode()

    def _decode(self) -> str:
        whole = _WHOLE_UNITS.match(self._held)
        end = whole.end() if whole else 0
        certain, self._held = self._held[:end], self._held[end:]
        self._ended = self._held.startswith('"')
        decoded: str = clean(json.loads(f'"{certain}"', strict=False))
        return decoded


# How a step that replies begins, by the order that the grammar enforces.
_OPENING = re.compile(r'\s*\{\s*"tool"\s*:\s*"chat"\s*,\s*"reply"\s*:\s*"')

# As many characters and escapes of a JSON string as are complete. A high surrogate is complete
# with its low one, or once what follows shows that none comes.
_WHOLE_UNITS = re.compile(
    r"""(?:
        [^"\\]
      | \\["\\/bfnrt]
      | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
      | \\u[dD][89abAB][0-9a-fA-F]{2}
        (?: \\u[dD][c-fC-F][0-9a-fA-F]{2}
          | (?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]) )
    )+""",
    re.VERBOSE,
)


def _branch(tool: str, member: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool}, member: schema},
        "required": ["tool", member],
        "additionalProperties": False,
    }


def _arguments(tool: ToolSpec, paths: Sequence[str] = ()) -> dict[str, Any]:
    """The required arguments alone: optional ones get filled with noise."""
    properties = tool.parameters.get("properties", {})
    required = [name for name in tool.parameters.get("required", ()) if name in properties]
    shapes = {name: _grammar(properties[name]) for name in required}
    if paths and "path" in shapes:
        shapes["path"] = {"enum": list(paths)}
    return {
        "type": "object",
        "properties": shapes,
        "required": required,
        "additionalProperties": False,
    }


def _grammar(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}
    kept = {key: value for key, value in schema.items() if key in _GRAMMAR_KEYS}
    return kept | ({"items": _grammar(kept["items"])} if "items" in kept else {})


def _line(tool: ToolSpec) -> str:
    arguments = ", ".join(_arguments(tool)["properties"])
    first = tool.description.strip().partition("\n")[0]
    return f"- {tool.name}({arguments}): {first}"


def _flat(message: Message, calls: dict[str, ToolCall], with_tools: bool) -> list[ChatMessage]:
    if message.role == "tool":
        return _exchange(message, calls.get(message.tool_call_id))
    text = in_words(message.content)
    if not text:
        return []
    if message.role != "assistant" or not with_tools:
        return [{"role": message.role, "content": text}]
    return [{"role": "assistant", "content": _json({"tool": CHAT, "reply": text})}]


def _exchange(result: Message, call: ToolCall | None) -> list[ChatMessage]:
    """A call right before its own result, whatever batch it came in."""
    name = call.name if call else "the tool"
    asked = {"tool": name, "arguments": call.arguments if call else {}}
    text = in_words(result.content)
    return [
        {"role": "assistant", "content": _json(asked)},
        {
            "role": "user",
            "content": f"Result of {name}: {text}\nNow answer my question with that result.",
        },
    ]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut_reply(text: str) -> str:
    decoded = ReplyDecoder().feed(text)
    return decoded or ("" if text.lstrip().startswith("{") else text)
