"""An image that a tool returns: kept beside the thread, shown to the model, never in a line."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from support.daemon import daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import conversation, on, pair, stored
from treadle.folders import CONFIG_VARIABLE
from treadle.thread.blobs import blobs_folder, check_blobs
from treadle.thread.replay import load

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SHA = hashlib.sha256(PNG).hexdigest()
CODED = base64.b64encode(PNG).decode()

CAMERA = f"""
from base64 import b64decode
from treadle import Definition, tool
from treadle.thread.attachments import attachment
from treadle.tools.tool import Answer

@tool(capability="read")
def shot() -> Answer:
    \"\"\"Take a photograph.\"\"\"
    return Answer("a shot", (attachment("image", b64decode("{CODED}"), "image/png"),))

def agent():
    return Definition("You look.", tools=[], own_tools=[shot])
"""

KEPT = {"type": "image", "mime_type": "image/png", "sha256": SHA, "size_bytes": len(PNG)}
PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{CODED}"}}


@pytest.fixture(autouse=True)
def camera() -> None:
    """An agent with a camera."""
    path = Path(os.environ[CONFIG_VARIABLE], "agents", "camera.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CAMERA)
    for each in (path, path.parent, path.parent.parent):
        each.chmod(0o700)


def shoot(request: Request) -> Answer:
    """Take a photograph whenever a person says so."""
    last = request["messages"][-1]
    if last["role"] == "user" and last_user_text(request) == "Shoot":
        return Answer(calls=[("shot", {})])
    return Answer("A cat.")


def images(sent: Request) -> list[Any]:
    """What a request shows, of whoever's."""
    contents = [each["content"] for each in sent["messages"] if isinstance(each["content"], list)]
    return [part for content in contents for part in content if part["type"] != "text"]


async def test_it_reaches_the_model_and_is_kept_beside_the_thread() -> None:
    async with conversation(shoot) as (client, server):
        answer = await client.request("session/prompt", pair("i", "camera", prompt="Shoot"))
        read = (await client.request("session/read", pair("i", "camera")))["messages"]
        seen = await client.request("session/read", pair("i", "camera", view="model"))
        (landed,) = client.of("session/toolResult")
    path = stored("camera", "i")
    file = blobs_folder(path) / f"{SHA}.png"

    assert answer["text"] == "A cat."
    assert [images(sent) for sent in server.requests] == [[], [PART]]
    assert load(path).messages[2].content == [{"type": "text", "text": "a shot"}, KEPT]
    assert CODED[:40].encode() not in path.read_bytes()
    assert file.read_bytes() == PNG
    assert check_blobs(path, load(path).messages) == []
    shown = {"type": "image", "mimeType": "image/png", "sha256": SHA, "sizeBytes": len(PNG)}
    content = [{"type": "text", "text": "a shot"}, {**shown, "path": str(file)}]
    assert read[2]["content"] == content
    assert [each["content"] for each in seen["messages"] if each["role"] == "tool"] == [content]
    assert (landed["content"], landed["ok"], landed["truncated"]) == ("a shot", True, False)


async def test_another_daemon_shows_it_again() -> None:
    async with ModelServer(shoot) as server:
        for words in ("Shoot", "And now?"):
            async with daemon(env=on(server)) as client:
                await client.request("session/prompt", pair("r", "camera", prompt=words))
                await client.end()
    assert [images(sent) for sent in server.requests] == [[], [PART], [PART]]
    assert server.requests[2]["messages"][:-2] == server.requests[1]["messages"]


async def test_a_fork_has_it_and_keeps_it_when_the_first_is_deleted() -> None:
    async with conversation(shoot) as (client, server):
        await client.request("session/prompt", pair("a", "camera", prompt="Shoot"))
        await client.request("session/fork", pair("a", "camera", into="b"))
        await client.request("session/delete", pair("a", "camera"))
        await client.request("session/prompt", pair("b", "camera", prompt="And now?"))
    assert images(server.requests[-1]) == [PART]
    assert not blobs_folder(stored("camera", "a")).exists()
    assert check_blobs(stored("camera", "b"), load(stored("camera", "b")).messages) == []


async def test_a_rewound_image_is_not_shown_any_more() -> None:
    async with conversation(shoot) as (client, server):
        await client.request("session/prompt", pair("a", "camera", prompt="Shoot"))
        await client.request("session/rewind", pair("a", "camera", to=-1))
        await client.request("session/prompt", pair("a", "camera", prompt="And now?"))
    assert images(server.requests[-1]) == []
    assert (blobs_folder(stored("camera", "a")) / f"{SHA}.png").read_bytes() == PNG


async def test_it_is_kept_while_the_disk_does_not_take_it_and_written_later() -> None:
    async with conversation(shoot) as (client, server):
        await client.request("session/prompt", pair("w", "camera", prompt="Hello"))
        path = stored("camera", "w")
        # A file in the folder's place fails for every user, whatever their rights.
        blobs_folder(path).touch()
        await client.request("session/prompt", pair("w", "camera", prompt="Shoot"))
        blobs_folder(path).unlink()
        await client.request("session/prompt", pair("w", "camera", prompt="Bye"))
        await client.end()
    assert images(server.requests[-1]) == [PART]
    assert check_blobs(path, load(path).messages) == []
    assert [message.role for message in load(path).messages].count("tool") == 1
