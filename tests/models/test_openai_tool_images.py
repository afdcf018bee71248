"""What an endpoint is shown of the images that tools return: after their results, never between."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from support.model_server import Answer as Said
from support.model_server import ModelServer, Request, in_order
from treadle.models.completion import ToolSpec
from treadle.models.embedded.shim import flatten
from treadle.models.openai import OpenAICompletion, attachments
from treadle.models.openai.attachments import LEFT_OUT, Attachments
from treadle.models.openai.request import HistoryEncoder
from treadle.thread.attachments import Attachment, attachment
from treadle.thread.blobs import Blobs
from treadle.thread.message import Message, ToolCall
from treadle.tools.tool import Answer, Tool, ToolContext
from treadle.turn.agent import Agent
from treadle.turn.loop import ToolResultLoop
from treadle.turn.tools import Tools

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
ZIP = attachment("resource", b"PK\3\4", "application/zip", uri="file:///a.zip")
HEAD = {
    "type": "text",
    "text": "[Not from the user: what the calls above returned beside their text.]",
}
WORDS = "[image, image/png, {} bytes, not shown to this model]"


def png(data: bytes = PNG) -> Attachment:
    return attachment("image", data, "image/png")


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def shown(data: bytes = PNG) -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def asked(*ids: str, name: str = "shot") -> Message:
    return Message("assistant", tool_calls=[ToolCall(each, name) for each in ids])


def result(call_id: str, words: str = "", *blocks: dict[str, Any]) -> Message:
    content = [text(words), *blocks] if blocks else words
    return Message("tool", content, tool_call_id=call_id)


def told(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


class Conversation:
    """One conversation, asked about again and again."""

    def __init__(self) -> None:
        self._encoder, self._chosen = HistoryEncoder(), Attachments("m")

    async def sent(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return what a request shows of messages, without the calls."""
        await self._encoder.attach(messages, self._chosen.plan(messages), Blobs(None))
        sent = json.loads(self._encoder.request("m", messages, []))["messages"]
        return [each for each in sent if each["role"] != "assistant"]


async def test_an_image_follows_the_last_result_of_its_batch_and_says_whose_it_is() -> None:
    messages = [
        asked("1", "2", "3"),
        result("1", "one", png()),
        result("2", "two"),
        result("3", "three", png(PNG + b"!")),
        Message("user", "And?"),
    ]
    beside = user(
        HEAD,
        text("From shot, call 1:"),
        shown(),
        text("From shot, call 3:"),
        shown(PNG + b"!"),
    )
    results = [told("1", "one"), told("2", "two"), told("3", "three")]
    conversation = Conversation()
    assert await conversation.sent(messages[:-1]) == [*results, beside]
    # What follows changes nothing of what was sent, so that prompt caches hit.
    assert await conversation.sent(messages) == [
        *results,
        beside,
        {"role": "user", "content": "And?"},
    ]


async def test_each_batch_has_its_own_images() -> None:
    messages = [asked("1"), result("1", "one", png()), asked("2"), result("2", "two", png())]
    assert await Conversation().sent(messages) == [
        told("1", "one"),
        user(HEAD, text("From shot, call 1:"), shown()),
        told("2", "two"),
        user(HEAD, text("From shot, call 2:"), shown()),
    ]


async def test_what_cannot_be_shown_is_named_in_the_tools_own_message() -> None:
    lost = dict(png())
    messages = [asked("1", "2"), result("1", "one", ZIP, png()), result("2", "two", lost)]
    assert await Conversation().sent(messages) == [
        told(
            "1",
            "one\n[resource file:///a.zip, application/zip, 4 bytes, not shown to this model]",
        ),
        told("2", "two\n[image, image/png, 264 bytes, its bytes are missing]"),
        user(HEAD, text("From shot, call 1:"), shown()),
    ]


async def test_the_newest_are_shown_whoever_sent_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MAX_REQUEST_BYTES", 2 * len(PNG))
    messages = [
        Message("user", [png()]),
        asked("1"),
        result("1", "one", png()),
        Message("user", [png()]),
    ]
    words = f"[image, image/png, 264 bytes, {LEFT_OUT}]"
    assert await Conversation().sent(messages) == [
        {"role": "user", "content": words},
        told("1", "one"),
        user(HEAD, text("From shot, call 1:"), shown()),
        user(shown()),
    ]


def camera(*blocks: dict[str, Any]) -> Tool:
    """A tool that returns images."""

    async def handle(arguments: object, context: ToolContext) -> Answer:
        return Answer("a shot", tuple(blocks))

    return Tool(ToolSpec("shot", "", {"type": "object", "properties": {}}), "read", handle)


def calling(*then: Said) -> Any:
    return in_order(Said(calls=[("shot", {})]), *then)


def without_calls(sent: Request) -> list[Any]:
    return [each for each in sent["messages"] if each["role"] != "assistant"]


async def test_a_model_is_sent_the_bytes_that_a_tool_returned() -> None:
    async with (
        ModelServer(calling(Said("A cat."))) as server,
        OpenAICompletion("m", server.base_url, "") as completion,
    ):
        agent = Agent().use(ToolResultLoop).use(Tools, tools=[camera(png())]).run(completion)
        env = await agent.start("Look.")
    assert env.messages[2].content == [text("a shot"), png()]
    assert env.messages[-1].text == "A cat."
    assert without_calls(server.requests[1]) == [
        {"role": "user", "content": "Look."},
        told("call_0", "a shot"),
        user(HEAD, text("From shot, call call_0:"), shown()),
    ]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "This model does not support image input"}),
        (400, {"message": "Unexpected role 'user' after role 'tool'"}),
        (400, {"message": "Conversation roles must alternate user/assistant/user/assistant"}),
    ],
)
async def test_a_model_that_takes_no_such_images_reads_that_they_are_there(
    status: int, error: dict[str, Any]
) -> None:
    refusal = Said(status=status, error=error)
    async with (
        ModelServer(calling(refusal, Said("I see none."))) as server,
        OpenAICompletion("m", server.base_url, "") as completion,
    ):
        agent = Agent().use(ToolResultLoop).use(Tools, tools=[camera(png())]).run(completion)
        env = await agent.start("Look.")
    assert env.messages[-1].text == "I see none."
    assert without_calls(server.requests[2]) == [
        {"role": "user", "content": "Look."},
        told("call_0", "a shot\n" + WORDS.format(264)),
    ]


def test_the_model_that_ships_reads_that_there_is_an_image() -> None:
    flat = flatten([Message("user", "Look."), asked("1"), result("1", "a shot", png())], [])
    assert f"Result of shot: a shot\n{WORDS.format(264)}\n" in flat[-1]["content"]
