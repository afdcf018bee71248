"""The completion for any OpenAI-compatible endpoint: one model call, told as it comes.

Owns the course of a call. Refuses to know tools, threads and retries.
"""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from treadle.errors import ConfigurationError, ContextOverflow, ModelError, ModelStreamBroken
from treadle.models.answer import say_answer, say_partial
from treadle.models.completion import CompletionEnv, Delta, ModelCall
from treadle.models.openai.attachments import Attachments
from treadle.models.openai.client import Endpoint
from treadle.models.openai.draft import Draft
from treadle.models.openai.errors import Place, no_room
from treadle.models.openai.request import HistoryEncoder
from treadle.models.openai.stream import stream_chat
from treadle.models.spec import DEFAULT_TIMEOUT_SECONDS
from treadle.models.windows import learn
from treadle.secrets import hold_value

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAICompletion:
    """What a library user hands to `Agent.run`; also usable with `async with`.

    Args:
        model: the model's name, as the endpoint knows it.
        base_url: the endpoint, its version included; without one OPENAI_BASE_URL, else OpenAI.
        api_key: the key; without one OPENAI_API_KEY, else none, as local servers want it.
        timeout_seconds: the longest silence before or within an answer.
        endpoint: an endpoint that somebody else shares out and closes, in place of the three.

    Raises:
        ConfigurationError: the model has no name.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        endpoint: Endpoint | None = None,
    ) -> None:
        if not model:
            raise ConfigurationError("the model's name is empty; say which model is to answer")
        self._model = model
        self._owns_endpoint = endpoint is None
        self._endpoint = endpoint or Endpoint(
            base_url or os.environ.get("OPENAI_BASE_URL"),
            os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key,
            timeout_seconds,
        )
        self._encoder = HistoryEncoder()
        self._attachments = Attachments(model)
        # A key that a script brings along is as secret as one of the environment.
        hold_value("api_key", api_key or "")

    async def __aenter__(self) -> OpenAICompletion:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless the endpoint is somebody else's."""
        if self._owns_endpoint:
            await self._endpoint.close()

    async def __call__(self, env: CompletionEnv) -> None:
        """Answer the conversation with one assistant message.

        Where the endpoint refuses what a person attached, it is asked again with less of that.

        Raises:
            ModelError: the endpoint's side failed; text that had come is kept, marked partial.
            ConfigurationError: the base URL or the key can never work.
        """
        client = await self._endpoint.client()
        env.emit("model_call", ModelCall(self._model, len(env.messages)))
        self._attachments.begin_call()
        while not await self._answer(env, client):
            pass

    async def _answer(self, env: CompletionEnv, client: AsyncOpenAI) -> bool:
        """Make the call once; return whether it is answered, else it is to be made again.

        Raises:
            ModelError: as above.
        """
        body = await self._body(env)
        draft = Draft()
        try:
            async with aclosing(stream_chat(client, body, model=self._model)) as chunks:
                async for chunk in chunks:
                    text, reasoning = draft.add(chunk)
                    if reasoning:
                        env.emit("delta", Delta("reasoning", reasoning))
                    if text:
                        env.emit("delta", Delta("text", text))
            if draft.is_cut_by_window and not draft.text:
                raise no_room(Place.of(client, self._model))
        except BaseException as error:
            if isinstance(error, ContextOverflow) and "window" in error.data:
                learn(self._model, error.data["window"])
            is_silent = not (draft.text or draft.reasoning)
            if isinstance(error, ModelError) and is_silent and self._attachments.degrade(error):
                return False
            await say_partial(env, model=self._model, text=draft.text, reasoning=draft.reasoning)
            if isinstance(error, ModelStreamBroken):
                raise ModelStreamBroken(error.message, partial=draft.text) from None
            raise
        await say_answer(
            env,
            model=self._model,
            finish_reason=draft.finish_reason,
            text=draft.text,
            reasoning=draft.reasoning,
            calls=draft.calls(),
            usage=draft.usage,
            refused=draft.refused,
        )
        return True

    async def _body(self, env: CompletionEnv) -> bytes:
        """Return the request's body, with as much of what a person attached as goes."""
        if plan := self._attachments.plan(env.messages):
            await self._encoder.attach(env.messages, plan, env.blobs)
        return self._encoder.request(self._model, env.messages, env.tools)
