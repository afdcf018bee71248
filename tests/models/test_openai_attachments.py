"""What an endpoint is shown of images and files, and a conversation that it refuses for them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.model_server import Answer, ModelServer, Request, in_order
from treadle.errors import ContextOverflow, ModelRefusedRequest
from treadle.models.attachments import in_words, size_in_words
from treadle.models.embedded.shim import flatten
from treadle.models.openai import OpenAICompletion, attachments, request
from treadle.models.openai.attachments import LEFT_OUT, Attachments
from treadle.models.openai.request import HistoryEncoder, encode_message
from treadle.models.scripted import Reply, Scripted
from treadle.thread.attachments import Attachment, attachment
from treadle.thread.blobs import Blobs
from treadle.thread.message import Message, decode_line, encode_line
from treadle.turn.agent import Agent

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
WAV = b"RIFF\x04\0\0\0WAVE"
PDF = b"%PDF-1.7"
LOOK = {"type": "text", "text": "Look:"}


def png(data: bytes = PNG) -> Attachment:
    return attachment("image", data, "image/png")


def said(*blocks: dict[str, Any]) -> Message:
    return Message("user", list(blocks))


def shown(data: bytes = PNG, mime_type: str = "image/png") -> dict[str, Any]:
    url = f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def contents(sent: Request) -> list[Any]:
    return [message["content"] for message in sent["messages"] if message["role"] == "user"]


async def encoded(messages: Sequence[Message], blobs: Blobs | None = None) -> list[Any]:
    """Return the contents of the request that shows what it may of a conversation."""
    encoder, chosen = HistoryEncoder(), Attachments("m")
    await encoder.attach(messages, chosen.plan(messages), blobs or Blobs(None))
    return contents(json.loads(encoder.request("m", messages, [])))


@asynccontextmanager
async def peer(answer: Callable[[Request], Answer]) -> AsyncIterator[tuple[Agent, ModelServer]]:
    async with (
        ModelServer(answer) as server,
        OpenAICompletion("m", server.base_url, "") as completion,
    ):
        yield Agent().run(completion), server


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (png(), [shown()]),
        (
            attachment("audio", WAV, "audio/wav"),
            [
                {
                    "type": "input_audio",
                    "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"},
                }
            ],
        ),
        (
            attachment("resource", PDF, "application/pdf", uri="file:///a%20b/my%20file.pdf"),
            [
                text("Contents of file:///a%20b/my%20file.pdf:"),
                {
                    "type": "file",
                    "file": {
                        "filename": "my file.pdf",
                        "file_data": shown(PDF, "application/pdf")["image_url"]["url"],
                    },
                },
            ],
        ),
        (
            attachment("resource", PNG, "image/png", uri="file:///a.png"),
            [text("Contents of file:///a.png:"), shown()],
        ),
    ],
)
async def test_each_kind_is_sent_in_the_form_that_endpoints_have_for_it(
    block: Attachment, parts: list[dict[str, Any]]
) -> None:
    assert await encoded([said(LOOK, block)]) == [[LOOK, *parts]]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (
            attachment("resource", b"PK\3\4", "application/zip", uri="file:///a.zip"),
            "[resource file:///a.zip, application/zip, 4 bytes, not shown to this model]",
        ),
        (
            attachment("audio", b"OggS" * 250, "audio/ogg"),
            "[audio, audio/ogg, 1 kB, not shown to this model]",
        ),
        (dict(png()), "[image, image/png, 264 bytes, its bytes are missing]"),
        ({"type": "image", "file": "a"}, "[image not shown]"),
    ],
)
async def test_what_cannot_be_shown_is_named_in_a_message_that_is_text(
    block: dict[str, Any], words: str
) -> None:
    assert await encoded([said(LOOK, block)]) == [f"Look:\n{words}"]


async def test_an_image_of_a_models_own_is_named() -> None:
    answer = Message("assistant", [dict(png())])
    encoder, chosen = HistoryEncoder(), Attachments("m")
    await encoder.attach([answer], chosen.plan([answer]), Blobs(None))
    sent = json.loads(encoder.request("m", [answer], []))["messages"]
    words = "[image, image/png, 264 bytes, not shown to this model]"
    assert sent == [{"role": "assistant", "content": words}]


async def test_damaged_bytes_are_named_and_never_sent(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "a.jsonl")
    await blobs.prepare(said(png()))
    (path,) = (tmp_path / "a.blobs").iterdir()
    path.write_bytes(PNG[::-1])
    messages = [decode_line(encode_line(said(png())))]
    assert await encoded(messages, blobs) == [
        "[image, image/png, 264 bytes, its bytes are damaged]"
    ]


async def test_bytes_are_read_and_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Message] = []

    def counting(message: Message, *rest: Any) -> bytes:
        counted.append(message)
        return encode_message(message, *rest)

    monkeypatch.setattr(request, "encode_message", counting)
    async with peer(lambda _: Answer("A cat.")) as (agent, server):
        said_first = said(LOOK, png())
        first = (await agent.start(said_first)).messages
        await agent.start([*first, Message("user", "And now?")])
    assert counted == [said_first, first[1], Message("user", "And now?")]
    assert contents(server.requests[1]) == [[LOOK, shown()], "And now?"]


async def test_the_oldest_are_left_out_of_a_request_that_has_no_room_for_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attachments, "MAX_REQUEST_BYTES", 2 * len(PNG))
    images = [png(PNG[:-1] + bytes([number])) for number in range(4)]
    messages = [said(LOOK, images[0], images[1]), said(images[2]), said(images[3])]
    chosen = Attachments("m")
    plan = chosen.plan(messages)
    assert [plan[id(message)] for message in messages] == [(LEFT_OUT, LEFT_OUT), ("",), ("",)]
    assert await encoded(messages) == [
        "Look:\n" + "\n".join([f"[image, image/png, 264 bytes, {LEFT_OUT}]"] * 2),
        [shown(images[2].data)],
        [shown(images[3].data)],
    ]
    chosen.plan(messages)
    assert [record.message for record in caplog.records] == [
        "2 attachments, the oldest or largest, are not sent to the model m again: "
        "one request holds at most 528 bytes of them"
    ] * 2  # once by each of the two


def test_an_attachment_that_fits_no_request_is_in_no_other_ones_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attachments, "MAX_REQUEST_BYTES", 2 * len(PNG))
    messages = [said(png()), said(png(PNG * 3)), said(png())]
    plan = Attachments("m").plan(messages)
    assert [plan[id(message)] for message in messages] == [("",), (LEFT_OUT,), ("",)]


_NO_IMAGES = (
    (400, {"message": "Invalid content type. image_url is only supported by certain models."}),
    (400, {"message": "This model does not support image input"}),
    (404, {"message": "No endpoints found that support image input"}),
    (400, {"message": "At most 0 image(s) may be provided in one request."}),
    (422, {"message": "unknown variant `image_url`, expected `text`"}),
    (422, {"message": "invalid type: sequence, expected a string at line 1 column 61"}),
    (400, {"message": "'messages.0.content': Input should be a valid string"}),
    (400, {"message": "Unsupported parameter", "param": "messages[0].content[1].image_url"}),
    (500, {"message": "image input is not supported - hint: you may need the mmproj"}),
    (400, {"message": "The model is not multimodal"}),
)


@pytest.mark.parametrize(("status", "error"), _NO_IMAGES)
async def test_a_model_that_takes_no_images_is_asked_again_without_them_from_then_on(
    status: int, error: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    refusal = Answer(status=status, error=error)
    async with peer(in_order(refusal, Answer("I see none."), Answer("No."))) as (agent, server):
        env = await agent.start(said(LOOK, png()))
        again = await agent.start([*env.messages, said(text("And here?"), png(PNG + b"!"))])
    assert (env.messages[-1].text, env.model_calls) == ("I see none.", 1)
    assert again.messages[-1].text == "No."
    words = "[image, image/png, 264 bytes, not shown to this model]"
    assert [contents(sent) for sent in server.requests] == [
        [[LOOK, shown()]],
        [f"Look:\n{words}"],
        [f"Look:\n{words}", "And here?\n" + words.replace("264", "265")],
    ]
    assert "the model m takes no attachments of the kind" in caplog.text


async def test_a_model_that_takes_no_files_still_sees_images() -> None:
    refusal = Answer(status=400, error={"message": "Invalid value: 'file'."})
    pdf = attachment("resource", PDF, "application/pdf", uri="x:a")
    async with peer(in_order(refusal, Answer("A cat."))) as (agent, server):
        await agent.start(said(png(), pdf))
    words = "[resource x:a, application/pdf, 8 bytes, not shown to this model]"
    assert contents(server.requests[1]) == [[shown(), text(words)]]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (413, "Payload Too Large"),
        (400, {"message": "context_length_exceeded"}),
        (400, {"message": "image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"}),
        (400, {"message": "Too many images in one request"}),
    ],
)
async def test_a_request_that_is_too_large_is_made_again_with_the_newer_half(
    status: int, error: Any
) -> None:
    images = [png(PNG[:-1] + bytes([number])) for number in range(4)]

    def answer(sent: Request) -> Answer:
        count = json.dumps(sent).count('image_url": {')
        return Answer(status=status, error=error) if count > 2 else Answer(f"{count} images.")

    async with peer(answer) as (agent, server):
        env = await agent.start([said(each) for each in images])
        await agent.start([*env.messages, Message("user", "Again.")])
    assert env.messages[-1].text == "2 images."
    words = f"[image, image/png, 264 bytes, {LEFT_OUT}]"
    halved = [words, words, [shown(images[2].data)], [shown(images[3].data)]]
    assert [contents(sent) for sent in server.requests[1:]] == [halved, [*halved, "Again."]]


async def test_what_is_still_too_large_is_made_once_more_without_any_attachment() -> None:
    too_large = Answer(status=413, error="Payload Too Large")
    async with peer(in_order(too_large, too_large, Answer("Fine."), Answer("A cat."))) as (
        agent,
        server,
    ):
        env = await agent.start([said(png()), said(png(PNG[:100])), said(png(PNG[:99]))])
        small = png(PNG[:90])
        await agent.start([*env.messages, said(small)])
    assert all(isinstance(content, str) for content in contents(server.requests[2]))
    # One that is small enough by what was learnt is shown.
    assert contents(server.requests[3])[3:] == [[shown(small.data)]]


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (413, "Payload Too Large", ContextOverflow),
        (400, {"message": "I do not like the image of your words"}, ModelRefusedRequest),
    ],
)
async def test_a_refusal_that_attachments_are_not_to_blame_for_is_told_and_teaches_nothing(
    status: int, error: Any, kind: type[Exception]
) -> None:
    failing = True

    def answer(_: Request) -> Answer:
        return Answer(status=status, error=error) if failing else Answer("A cat.")

    async with peer(answer) as (agent, server):
        with pytest.raises(kind):
            await agent.start(said(png()))
        tries = len(server.requests)
        with pytest.raises(kind):
            await agent.start("No image here")
        failing = False
        await agent.start(said(png()))
    assert tries == 2
    assert len(server.requests) == tries + 2
    assert contents(server.requests[-1]) == [[shown()]]


async def test_a_model_that_does_not_exist_is_asked_once() -> None:
    missing = Answer(status=404, error={"message": "The model `m` does not exist"})
    async with peer(in_order(missing)) as (agent, _):
        with pytest.raises(ModelRefusedRequest):
            await agent.start(said(png()))


async def test_an_answer_that_had_begun_is_not_asked_for_again() -> None:
    broken = Answer("Half", stream_error={"message": "image decoding failed"})
    async with peer(in_order(broken)) as (agent, _):
        with pytest.raises(Exception, match="image decoding failed"):
            await agent.start(said(png()))


async def test_models_that_read_text_alone_are_told_what_they_are_not_shown() -> None:
    words = "[image, image/png, 264 bytes, not shown to this model]"
    env = await Agent().run(Scripted([Reply(echo=True)])).start(said(LOOK, png()))
    assert env.messages[-1].text == f"Look:\n{words}"
    assert flatten([said(LOOK, dict(png()))], []) == [
        {"role": "user", "content": f"Look:\n{words}"}
    ]


def test_a_name_without_end_is_cut_and_stays_on_one_line() -> None:
    block = attachment("resource", b"x", "application/zip", uri="a\nb" + "c" * 300)
    assert in_words([block]).startswith("[resource a bccc")
    assert len(in_words([block])) < 300
    sizes = [1, 999, 1000, 34_400, 999_499, 999_500, 20 << 20]
    assert [size_in_words(size) for size in sizes] == [
        "1 byte",
        "999 bytes",
        "1 kB",
        "34 kB",
        "999 kB",
        "1.0 MB",
        "21.0 MB",
    ]
