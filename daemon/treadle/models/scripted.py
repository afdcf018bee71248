"""A model that says what a script tells it: the completion seam's fake, for users' own tests.

Owns replies and what was asked. Refuses to know the network.
"""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from treadle.errors import ConfigurationError, InvalidAgent, ModelError, TreadleError
from treadle.models.answer import say_answer, say_partial
from treadle.models.attachments import in_words
from treadle.models.completion import CompletionEnv, Delta, ModelCall
from treadle.models.spec import SCRIPTED_PREFIX
from treadle.thread.message import Message, ToolCall, Usage

# A script for a test has a few lines; what is larger was named by mistake.
SCRIPT_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call the script makes; without an `id` it gets one that is new in its conversation."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One model call's answer.

    Args:
        text: said as several deltas, by words.
        reasoning: said before it, in the same way.
        calls: the tools it calls.
        error: raised after the text, which is then kept as partial.
        delay_seconds: waited before the first delta.
        finish: as a provider says it; `length` and `content_filter` cut the answer short.
        usage: what the call is said to cost.
        echo: the text is the last thing the user said; what is no text, it names.
    """

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ScriptedCall] = ()
    error: TreadleError | None = None
    delay_seconds: float = 0
    finish: str = "stop"
    usage: Usage | None = None
    echo: bool = False


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What one model call was asked: the conversation and the names of the tools on offer."""

    messages: tuple[Message, ...]
    tools: tuple[str, ...]


class Scripted:
    """A completion that gives `replies` in order.

    Args:
        replies: one for each model call; a string is a reply with that text.
        model: the name it answers under.
    """

    def __init__(self, replies: Sequence[Reply | str], *, model: str = "scripted") -> None:
        given = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
        self.requests: list[ScriptedRequest] = []
        self._left = iter(given)
        self._count = len(given)
        self._model = model

    @classmethod
    def from_file(cls, path: str | Path) -> Scripted:
        """Read replies from a JSONL file, one object a line; after the last they start over.

        A line has the members of `Reply`; `error` is an object with a `reason` such as
        `model_rate_limited`, a `message`, and that error's data. Blank lines are skipped.

        Raises:
            InvalidAgent: the file cannot be read; the message names file and line.
        """
        replies = _read_replies(Path(path))
        scripted = cls(replies, model=f"{SCRIPTED_PREFIX}{path}")
        scripted._left = cycle(replies)
        return scripted

    async def __call__(self, env: CompletionEnv) -> None:
        """Say the next reply.

        Raises:
            ConfigurationError: the replies are used up.
            TreadleError: the reply's own error.
        """
        names = tuple(spec.name for spec in env.tools)
        self.requests.append(ScriptedRequest(tuple(env.messages), names))
        reply = next(self._left, None)
        if reply is None:
            raise ConfigurationError(
                f"the script has {self._count} replies and this is model call "
                f"{len(self.requests)}; give it one for each call"
            )
        env.emit("model_call", ModelCall(self._model, len(env.messages)))
        await self._say(env, reply)

    async def _say(self, env: CompletionEnv, reply: Reply) -> None:
        text, reasoning = "", ""
        try:
            await asyncio.sleep(reply.delay_seconds)
            for word in _words(reply.reasoning):
                reasoning += word
                await _emit(env, Delta("reasoning", word))
            for word in _words(_last_user_text(env) if reply.echo else reply.text):
                text += word
                await _emit(env, Delta("text", word))
            if reply.error is not None:
                raise reply.error
        except (TreadleError, asyncio.CancelledError):
            await say_partial(env, model=self._model, text=text, reasoning=reasoning)
            raise
        await say_answer(
            env,
            model=self._model,
            finish_reason=reply.finish,
            text=text,
            reasoning=reasoning,
            calls=_calls(env, reply.calls),
            usage=reply.usage,
        )


class ScriptedFile:
    """`Scripted.from_file`, read in a worker thread at the first model call."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._scripted: Scripted | None = None

    async def __call__(self, env: CompletionEnv) -> None:
        """Say the file's next reply.

        Raises:
            InvalidAgent: the file cannot be read.
            TreadleError: the reply's own error.
        """
        if self._scripted is None:
            self._scripted = await asyncio.to_thread(Scripted.from_file, self._path)
        await self._scripted(env)


async def _emit(env: CompletionEnv, delta: Delta) -> None:
    """Emit and let others run, so that a cancel can fall between two words."""
    env.emit("delta", delta)
    await asyncio.sleep(0)


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+\s*\Z|\s*\S+|\s+", text)


def _last_user_text(env: CompletionEnv) -> str:
    said = (message for message in reversed(env.messages) if message.role == "user")
    last = next(said, None)
    return "" if last is None else in_words(last.content)


def _calls(env: CompletionEnv, calls: Sequence[ScriptedCall]) -> list[ToolCall]:
    made = sum(len(message.tool_calls) for message in env.messages)
    return [
        ToolCall(call.id or f"call_{number}", call.name, call.arguments)
        for number, call in enumerate(calls, made + 1)
    ]


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A reply as a script file has it."""

    text: str = ""
    reasoning: str = ""
    calls: list[ScriptedCall] = []
    error: dict[str, Any] | None = None
    delay_seconds: float = 0
    finish: str = "stop"
    usage: Usage | None = None
    echo: bool = False


_ERRORS = {kind.reason: kind for kind in ModelError.__subclasses__()}


def _read_replies(path: Path) -> list[Reply]:
    try:
        lines = _read_file(path).splitlines()
    except OSError as error:
        problem = error.strerror or str(error)
        raise InvalidAgent(
            f"the script {path} cannot be read: {problem}", path=str(path)
        ) from error
    replies = [
        _read_reply(line, f"line {number} of the script {path}", path)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not replies:
        raise InvalidAgent(f"the script {path} holds no reply", path=str(path))
    return replies


def _read_file(path: Path) -> bytes:
    """Read a script; a client may name any path, so it may be no file at all.

    Raises:
        OSError: it cannot be read, has no end, or is too large.
    """
    # Asked before it is opened: a pipe that nobody writes to would never let the worker go.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is not a regular file")
    with path.open("rb") as file:
        data = file.read(SCRIPT_LIMIT_BYTES + 1)
    if len(data) > SCRIPT_LIMIT_BYTES:
        raise OSError(f"it is larger than {SCRIPT_LIMIT_BYTES >> 20} MiB")
    return data


def _read_reply(line: bytes, where: str, path: Path) -> Reply:
    try:
        read = msgspec.json.decode(line, type=_Line)
        error = None if read.error is None else _read_error(dict(read.error))
    except (msgspec.MsgspecError, ValueError, TypeError) as problem:
        raise InvalidAgent(f"{where} is no reply: {problem}", path=str(path)) from problem
    members = {name: getattr(read, name) for name in read.__struct_fields__}
    return Reply(**members | {"error": error})


def _read_error(members: dict[str, Any]) -> ModelError:
    reason = members.pop("reason", "")
    if reason not in _ERRORS:
        raise ValueError(f"no error has the reason {reason!r}; there are: {', '.join(_ERRORS)}")
    message = members.pop("message", f"the script says so: {reason}")
    return _ERRORS[reason](message, **members)
