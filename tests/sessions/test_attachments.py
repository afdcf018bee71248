"""Images and files in a prompt: kept beside the thread, shown to the model, never in a line."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from support.daemon import RpcError, daemon
from support.model_server import Answer, ModelServer, Request
from support.person import conversation, on, pair, stored, write_config
from support.waiting import PATIENCE_SECONDS
from treadle.thread.blobs import BlobProblem, blobs_folder, check_blobs
from treadle.thread.replay import load

DYING = (sys.executable, str(Path(__file__).parent / "drivers" / "dying.py"))

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SHA = hashlib.sha256(PNG).hexdigest()
PDF = b"%PDF-1.7"
LOOK = {"type": "text", "text": "Look:"}


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: bytes = PNG, mime_type: str = "image/png") -> dict[str, Any]:
    """An image as a client sends it."""
    return {"type": "image", "data": coded(data), "mimeType": mime_type}


def part(data: bytes = PNG) -> dict[str, Any]:
    """An image as a model is sent it."""
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{coded(data)}"}}


def blob(data: bytes = PDF, **members: Any) -> dict[str, Any]:
    return {
        "type": "resource",
        "resource": {"uri": "file:///a.pdf", "blob": coded(data), **members},
    }


def contents(sent: Request) -> list[Any]:
    return [message["content"] for message in sent["messages"] if message["role"] == "user"]


def cat(_: Request) -> Answer:
    return Answer("A cat.")


def files(path: Path) -> list[str]:
    folder = blobs_folder(path)
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


async def test_an_image_reaches_the_model_as_it_was_sent_and_is_kept_beside_the_thread() -> None:
    async with conversation(cat) as (client, server):
        said = pair("i", prompt=[LOOK, image(), {"type": "text", "text": "What is it?"}])
        answer = await client.request("session/prompt", said)
        read = (await client.request("session/read", pair("i")))["messages"]
        await client.request("session/prompt", pair("i", prompt=[image()]))
    path = stored("assistant", "i")
    asked = {"type": "text", "text": "What is it?"}
    kept = {"type": "image", "mime_type": "image/png", "sha256": SHA, "size_bytes": len(PNG)}
    file = blobs_folder(path) / f"{SHA}.png"

    assert answer["text"] == "A cat."
    assert [contents(sent) for sent in server.requests] == [
        [[LOOK, part(), asked]],
        [[LOOK, part(), asked], [part()]],
    ]
    assert [message.content for message in load(path).messages] == [
        [LOOK, kept, asked],
        "A cat.",
        [kept],
        "A cat.",
    ]
    assert coded(PNG)[:40].encode() not in path.read_bytes()
    assert files(path) == [file.name]
    assert file.read_bytes() == PNG
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    shown = {"type": "image", "mimeType": "image/png", "sha256": SHA, "sizeBytes": len(PNG)}
    assert read[0]["content"] == [LOOK, {**shown, "path": str(file)}, asked]


async def test_files_and_recordings_are_kept_too_and_texts_stay_texts() -> None:
    wav = b"RIFF\x04\0\0\0WAVE"
    audio = {"type": "audio", "data": coded(wav), "mimeType": "audio/x-wav"}
    text = {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "B"}}
    async with conversation(cat) as (client, server):
        await client.request("session/prompt", pair("f", prompt=[LOOK, text, audio, blob()]))
        read = (await client.request("session/read", pair("f")))["messages"]
        await client.request("session/prompt", pair("t", prompt=[LOOK, text]))
    folder = blobs_folder(stored("assistant", "f"))
    texts = "Look:\n\nContents of file:///b.txt:\nB"
    names = [hashlib.sha256(data).hexdigest() for data in (wav, PDF)]
    assert read[0]["content"] == [
        {"type": "text", "text": texts},
        {
            "type": "audio",
            "mimeType": "audio/wav",
            "sha256": names[0],
            "sizeBytes": len(wav),
            "path": str(folder / f"{names[0]}.wav"),
        },
        {
            "type": "resource",
            "uri": "file:///a.pdf",
            "mimeType": "application/pdf",
            "sha256": names[1],
            "sizeBytes": len(PDF),
            "path": str(folder / f"{names[1]}.pdf"),
        },
    ]
    assert [each["type"] for each in contents(server.requests[0])[0]] == [
        "text",
        "input_audio",
        "text",
        "file",
    ]
    assert contents(server.requests[1]) == [texts]
    assert files(stored("assistant", "t")) == []


async def test_another_daemon_sends_the_image_again_and_names_it_where_it_is_lost() -> None:
    async with ModelServer(cat) as server:
        async with daemon(env=on(server)) as client:
            await client.request("session/prompt", pair("r", prompt=[LOOK, image(), blob()]))
            await client.end()
        path = stored("assistant", "r")
        async with daemon(env=on(server)) as client:
            await client.request("session/prompt", pair("r", prompt="And now?"))
            await client.end()
        (blobs_folder(path) / f"{SHA}.png").unlink()
        async with daemon(env=on(server)) as client:
            answer = await client.request("session/prompt", pair("r", prompt="Still?"))
            read = (await client.request("session/read", pair("r")))["messages"]
    first, second, third = (contents(sent)[0] for sent in server.requests)
    assert second == first
    words = "[image, image/png, 264 bytes, its bytes are missing]"
    assert third == [first[0], {"type": "text", "text": words}, *first[2:]]
    assert answer["text"] == "A cat."
    assert ["path" in block for block in read[0]["content"][1:]] == [False, True]
    problem = BlobProblem("missing", blobs_folder(path) / f"{SHA}.png")
    assert check_blobs(path, load(path).messages) == [problem]


async def test_a_daemon_killed_before_the_line_leaves_no_reference_to_nothing() -> None:
    async with ModelServer(cat) as server:
        async with daemon(env=on(server), program=DYING) as client:
            with pytest.raises(EOFError):
                await client.request("session/prompt", pair("k", prompt=[LOOK, image()]))
            await client.wait()
        path = stored("assistant", "k")
        loaded = load(path)
        orphan = BlobProblem("orphan", blobs_folder(path) / f"{SHA}.png")
        assert (loaded.messages, check_blobs(path, [])) == ([], [orphan])
        async with daemon(env=on(server)) as client:
            await client.request("session/prompt", pair("k", prompt=[LOOK, image()]))
    assert check_blobs(path, load(path).messages) == []
    assert contents(server.requests[0]) == [[LOOK, part()]]


async def test_an_image_steered_into_a_turn_is_kept_and_shown_at_its_next_step() -> None:
    first = Answer("Waiting.", pause_after=0)
    answers = [first, Answer("A cat.")]
    async with conversation(lambda _: answers.pop(0)) as (client, server):
        begun = client.ask("session/prompt", pair("s", prompt="Hello"))
        await server.until(lambda: bool(server.requests))
        steered = client.ask("session/prompt", pair("s", prompt=[image()], whenBusy="steer"))
        await client.request("session/list")
        first.go_on.set()
        results = [await begun, await steered]
    assert [result["turn"] for result in results] == [1, 1]
    assert contents(server.requests[1]) == ["Hello", [part()]]
    assert files(stored("assistant", "s")) == [f"{SHA}.png"]


async def test_a_thread_in_memory_keeps_its_images_there_also_when_it_is_closed() -> None:
    write_config('[sessions]\ndurability = "memory"\n')
    async with conversation(cat) as (client, server):
        await client.request("session/prompt", pair("m", prompt=[image()]))
        await client.request("session/close", pair("m"))
        await client.request("session/prompt", pair("m", prompt="And now?"))
        read = (await client.request("session/read", pair("m")))["messages"]
    assert contents(server.requests[1]) == [[part()], "And now?"]
    assert "path" not in read[0]["content"][0]
    assert not stored("assistant", "m").parent.exists()


async def test_a_model_without_eyes_answers_and_the_session_goes_on() -> None:
    def blind(sent: Request) -> Answer:
        if "image_url" in json.dumps(sent):
            return Answer(status=400, error={"message": "this model does not support image input"})
        return Answer("I see none.")

    async with conversation(blind) as (client, server):
        for words in ("And this?", "Bye."):
            said = [{"type": "text", "text": words}, image()]
            answer = await client.request("session/prompt", pair("b", prompt=said))
            assert (answer["text"], answer["steps"]) == ("I see none.", 1)
    assert len(server.requests) == 3
    named = "\n[image, image/png, 264 bytes, not shown to this model]"
    assert contents(server.requests[-1]) == ["And this?" + named, "Bye." + named]
    assert client.of("session/retrying") == []


async def test_many_large_images_do_not_make_a_request_without_bound() -> None:
    large = [PNG + random.Random(number).randbytes(9 << 20) for number in range(3)]
    async with conversation(cat) as (client, server):
        for data in large:
            await client.request("session/prompt", pair("l", prompt=[image(data)]))
    path = stored("assistant", "l")
    assert path.stat().st_size < 4000
    sent = contents(server.requests[-1])
    assert isinstance(sent[0], str)
    assert "left out" in sent[0]
    assert sent[1:] == [[part(data)] for data in large[1:]]


async def test_while_bytes_cannot_be_written_the_session_goes_on_in_memory_and_loses_none() -> None:
    async with conversation(cat) as (client, server):
        await client.request("session/prompt", pair("w", prompt="Hello"))
        path = stored("assistant", "w")
        # A file in the folder's place fails for every user, whatever their rights.
        blobs_folder(path).touch()
        await client.request("session/prompt", pair("w", prompt=[image()]))
        await client.request("session/prompt", pair("w", prompt="And now?"))
        degraded = client.of("session/state")[-1]["storage"]
        meanwhile = load(path).messages
        blobs_folder(path).unlink()
        await client.request("session/prompt", pair("w", prompt="Bye"))
        ok = client.of("session/state")[-1]["storage"]
        await client.end()
    assert (degraded, len(meanwhile), ok) == ("degraded", 2, "ok")
    assert contents(server.requests[-1]) == ["Hello", [part()], "And now?", "Bye"]
    assert len(load(path).messages) == 8
    assert check_blobs(path, load(path).messages) == []


_TOO_LARGE = "A" * (((20 << 20) + 2) // 3 * 4 + 4)

_HOSTILE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"type": "image", "data": "", "mimeType": "image/png"}, "prompt[1].data"),
    ({"type": "image", "data": "%%%%", "mimeType": "image/png"}, "prompt[1].data"),
    ({"type": "image", "data": "iVBORw0", "mimeType": "image/png"}, "prompt[1].data"),
    ({"type": "image", "data": coded(PNG) + "\n", "mimeType": "image/png"}, "prompt[1].data"),
    (
        {
            "type": "image",
            "data": "data:image/png;base64," + coded(PNG),
            "mimeType": "image/png",
        },
        "prompt[1].data",
    ),
    ({"type": "image", "data": "ü" + coded(PNG), "mimeType": "image/png"}, "prompt[1].data"),
    ({"type": "image", "data": _TOO_LARGE, "mimeType": "image/png"}, "prompt[1].data"),
    (image(PNG, "image/jpeg"), "prompt[1].data"),
    (image(b"<svg>"), "prompt[1].data"),
    (image(b"<svg>", "image/svg+xml"), "prompt[1].mimeType"),
    (image(PNG, "text/plain"), "prompt[1].mimeType"),
    (image(PNG, "../png"), "prompt[1].mimeType"),
    ({"type": "image", "data": coded(PNG)}, "prompt[1].mimeType"),
    ({"type": "image", "mimeType": "image/png"}, "prompt[1].data"),
    ({"type": "image", "data": 5, "mimeType": "image/png"}, "prompt[1].data"),
    ({"type": "audio", "data": coded(PNG), "mimeType": "audio/wav"}, "prompt[1].data"),
    ({"type": "audio", "data": coded(PNG), "mimeType": "image/png"}, "prompt[1].mimeType"),
    (blob(mimeType="image/png"), "prompt[1].resource.blob"),
    (blob(PNG, mimeType="text/html"), "prompt[1].resource.blob"),
    (blob(mimeType="pdf"), "prompt[1].resource.mimeType"),
    (blob(b""), "prompt[1].resource.blob"),
    (blob(text="and text"), "prompt[1].resource"),
    ({"type": "resource", "resource": {"uri": "file:///a"}}, "prompt[1].resource"),
)


async def test_bytes_that_are_not_what_they_are_said_to_be_are_refused_with_their_place() -> None:
    refused: list[tuple[int, Any]] = []
    async with conversation(cat) as (client, server):
        for block, _ in _HOSTILE:
            try:
                await client.request("session/prompt", pair("h", prompt=[LOOK, block]))
            except RpcError as error:
                refused.append((error.code, error.data))
        await client.still_answers()
    assert refused == [(-32602, {"path": path}) for _, path in _HOSTILE]
    assert server.requests == []
    assert not stored("assistant", "h").parent.exists()


async def test_a_resource_of_a_type_nobody_names_is_told_by_its_bytes() -> None:
    async with conversation(cat) as (client, _):
        said = [blob(PNG), blob(PDF, mimeType="application/octet-stream"), blob(b"?")]
        await client.request("session/prompt", pair("u", prompt=said))
        read = (await client.request("session/read", pair("u")))["messages"]
    types = ["image/png", "application/pdf", "application/octet-stream"]
    assert [block["mimeType"] for block in read[0]["content"]] == types


async def test_a_prompt_repeated_under_its_key_is_told_apart_by_its_image() -> None:
    async with conversation(cat) as (client, server):
        said = pair("d", prompt=[image()], key="k")
        first = await client.request("session/prompt", said)
        assert await client.request("session/prompt", said) == first
        with pytest.raises(RpcError) as refused:
            await client.request("session/prompt", {**said, "prompt": [image(PNG + b"!")]})
    assert refused.value.data == {"path": "key"}
    assert len(server.requests) == 1


async def test_prompts_keep_their_order_whatever_they_bring() -> None:
    async with conversation(cat) as (client, server):
        large = PNG + random.Random(7).randbytes(2 << 20)
        asked = [
            client.ask("session/prompt", pair("o", prompt=[image(large)])),
            client.ask("session/prompt", pair("o", prompt="Second")),
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            results = await asyncio.gather(*asked)
    assert [result["turn"] for result in results] == [1, 2]
    assert contents(server.requests[1])[1] == "Second"
