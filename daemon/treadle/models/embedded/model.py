"""The embedded model as a completion: one process for all sessions, one call a time for each.

Owns the request's body and the way from steps to text and calls. The process is `server`'s, the
shape of a step `shim`'s, the connection that of any endpoint.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from treadle.errors import ModelStreamBroken, ModelUnreachable
from treadle.models.answer import say_answer, say_partial
from treadle.models.completion import Completion, CompletionEnv, Delta, ModelCall, ToolSpec
from treadle.models.embedded.child import ALIAS
from treadle.models.embedded.server import EmbeddedServer, Running
from treadle.models.embedded.shim import (
    ReplyDecoder,
    Step,
    flatten,
    offered,
    parse_step,
    step_schema,
)
from treadle.models.openai.client import Endpoint
from treadle.models.openai.draft import Draft
from treadle.models.openai.stream import Chunk, stream_chat
from treadle.models.spec import DEFAULT_TIMEOUT_SECONDS
from treadle.thread.message import Message, ToolCall, clean

# At some 40 tokens a second this is a quarter of a minute; a model this small that says more
# repeats itself.
MAX_TOKENS = 512


class EmbeddedModel:
    """The local default: close it when the last session is gone.

    Args:
        cache: Treadle's cache folder, where the model file lies.
        server: the process, else one that is started at the first turn.
    """

    def __init__(self, cache: Path, *, server: EmbeddedServer | None = None) -> None:
        self._server = server or EmbeddedServer(cache)
        self._endpoint: tuple[Running, Endpoint] | None = None

    def completion(self) -> Completion:
        """Return a completion for one session; nothing is started yet."""
        return self._complete

    async def close(self) -> None:
        """Stop the process and close the connections to it."""
        known, self._endpoint = self._endpoint, None
        try:
            if known is not None:
                await known[1].close()
        finally:
            await self._server.close()

    async def _complete(self, env: CompletionEnv) -> None:
        """Answer the conversation with one assistant message.

        Raises:
            NoModel: it cannot run here; `how` says what to do.
            ModelError: the process failed; text that had come is kept, marked partial.
        """
        tools = offered(env.tools)
        body = _body(env.messages, tools)
        async with self._server.use() as running:
            endpoint = await self._endpoint_of(running)
            env.emit("model_call", ModelCall(ALIAS, len(env.messages)))
            answer = _Answer(with_steps=bool(tools))
            try:
                client = await endpoint.client()
                async with aclosing(stream_chat(client, body, model=ALIAS)) as chunks:
                    async for chunk in chunks:
                        if text := answer.add(chunk):
                            env.emit("delta", Delta("text", text))
            except BaseException as error:
                await say_partial(env, model=ALIAS, text=answer.text)
                raise await _told(error, running, answer.text) from None
        await _say(env, answer)

    async def _endpoint_of(self, running: Running) -> Endpoint:
        """Return the endpoint of a process; a new process has a new one."""
        known = self._endpoint
        if known is not None and known[0] is running:
            return known[1]
        endpoint = Endpoint(running.base_url, running.api_key, DEFAULT_TIMEOUT_SECONDS)
        self._endpoint = (running, endpoint)
        if known is not None:
            await known[1].close()
        return endpoint


class _Answer:
    """An answer while it grows: plain text, or the reply of a step."""

    def __init__(self, *, with_steps: bool) -> None:
        self.draft = Draft()
        self.text = ""
        self._decoder = ReplyDecoder() if with_steps else None

    def add(self, chunk: Chunk) -> str:
        """Take a chunk; return the text that is new in it."""
        text, _ = self.draft.add(chunk)
        if self._decoder is not None:
            text = self._decoder.feed(text)
        self.text += text
        return text

    def step(self) -> Step:
        """Return what the finished answer says."""
        return Step(reply=self.text) if self._decoder is None else parse_step(self.draft.text)


def _body(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> bytes:
    body: dict[str, Any] = {
        "model": ALIAS,
        "messages": flatten(messages, tools),
        # With any warmth a model this small forgets names.
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        schema = {"name": "step", "schema": step_schema(messages, tools)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return msgspec.json.encode(clean(body))


async def _say(env: CompletionEnv, answer: _Answer) -> None:
    step = answer.step()
    if late := step.reply.removeprefix(answer.text):
        env.emit("delta", Delta("text", late))
    calls = [ToolCall(f"call_{os.urandom(12).hex()}", step.tool, step.arguments or {})]
    await say_answer(
        env,
        model=ALIAS,
        finish_reason=answer.draft.finish_reason,
        text=step.reply,
        calls=calls if step.tool else (),
        usage=answer.draft.usage,
    )


async def _told(error: BaseException, running: Running, text: str) -> BaseException:
    """Return the error to raise: a connection that fails is a process that ended, as a rule."""
    if isinstance(error, ModelUnreachable | ModelStreamBroken) and await running.has_died():
        return await running.unreachable()
    if isinstance(error, ModelStreamBroken):
        return ModelStreamBroken(error.message, partial=text)
    return error
