"""Noise: thousands of frames that are all allowed, in any mixture, and what must hold after it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from support.daemon import Daemon, RpcError, daemon
from support.documents import seen
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.noise import LARGE_CHARACTERS, OK, Frame, NoisyEditor
from support.person import on, pair, write_config
from support.process import linux_only, peak_resident_bytes, resident_bytes
from support.waiting import PATIENCE_SECONDS

# So many that what each one leaves behind is seen in the memory of the process.
FRAMES = 10_000

# Sent before their replies are waited for: far below what one client may have in flight.
AT_ONCE = 500

# Of a hundred megabytes, some large documents are left open at the end.
SEED = 3

# What the same noise may add when it comes again. An allocator gives back late what it had in
# pieces; a few more or less of the texts that are in several threads at once are seen here.
GROWTH_BYTES = 24 << 20

# A flood of so many documents of a megabyte.
FLOOD = 200

# Two hundred megabytes are written and read on the way; what is asked behind them waits that long.
FLOOD_PATIENCE_SECONDS = PATIENCE_SECONDS * 4

# What the daemon may hold of it at any moment: what waits while pygls loads, the same once more as
# text, and pygls itself.
FLOOD_BYTES = 120 << 20

# The document that is flooded.
FLOODED = "untitled:flooded"

# How long pygls loads on a slow machine.
LOADING_SECONDS = 1.5


def digested(request: Request) -> Answer:
    """Answer with what tells one text from another, however long it is."""
    return Answer(_digest(last_user_text(request)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def say(client: Daemon, editor: NoisyEditor, count: int) -> None:
    """Say so many things, and see that each request gets the one reply that it may get."""
    frames = list(editor.frames(count))
    for start in range(0, count, AT_ONCE):
        await _exchange(client, frames[start : start + AT_ONCE])


async def _exchange(client: Daemon, frames: list[Frame]) -> None:
    waiting = []
    unanswerable = 0
    for frame in frames:
        if frame.codes and not _can_be_answered(frame.request_id):
            unanswerable += 1
        elif frame.codes:
            waiting.append((frame, client.expect(frame.request_id)))
        client.send(frame.message)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.stdin.drain()
    for frame, reply in waiting:
        assert await _code(reply) in frame.codes, frame.message
    await client.until(lambda: len(client.strays) >= unanswerable)
    strays, client.strays = client.strays, []
    codes = [(stray["id"], stray["error"]["code"]) for stray in strays]
    assert codes == [(None, -32600)] * unanswerable
    client.events.clear()
    client.log.clear()


def _can_be_answered(request_id: object) -> bool:
    return isinstance(request_id, int | str) and not isinstance(request_id, bool)


async def _code(reply: asyncio.Future[Any]) -> int:
    try:
        await reply
    except RpcError as error:
        return error.code
    return OK


async def _documents_are_the_same(client: Daemon, editor: NoisyEditor) -> None:
    for number, (uri, text) in enumerate(sorted(editor.texts.items())):
        digest = await _seen(client, uri, f"document {number}")
        assert digest == _digest(f"Contents of {uri}:\n{text}"), uri


async def _seen(client: Daemon, uri: str, instance: str) -> str:
    """Return what tells of the text that a model reads behind a link; the session is closed."""
    digest = await seen(client, uri, instance)
    await client.request("session/close", pair(instance))
    return digest


@linux_only
async def test_ten_thousand_frames_of_noise_are_answered_and_leave_nothing_behind(
    serving: Callable[..., tuple[str, str]],
) -> None:
    # Documents of any size are compared, so a link and a window have to take them.
    write_config("[compaction]\nwindow = 20_000_000\n")
    program = serving(
        "from treadle.server.handlers import sessions",
        "sessions.MAX_DOCUMENT_CHARACTERS = 1 << 30",
    )
    async with ModelServer(digested) as server, daemon(program=program, env=on(server)) as client:
        first = await _occupied_after_noise(client, warm_up := NoisyEditor(SEED))
        await _exchange(client, warm_up.closing())
        again = await _occupied_after_noise(client, editor := NoisyEditor(SEED))
        assert again - first < GROWTH_BYTES
        assert max(map(len, editor.texts.values())) > LARGE_CHARACTERS // 2
        await _documents_are_the_same(client, editor)
        assert await client.end() == 0
        assert client.strays == []


async def _occupied_after_noise(client: Daemon, editor: NoisyEditor) -> int:
    await say(client, editor, FRAMES)
    # The last documents are taken before a link to one is looked up.
    await _seen(client, "file:///never/opened", "nothing")
    return resident_bytes(client.process.pid)


@linux_only
async def test_a_flood_of_documents_waits_outside_and_is_answered_when_it_is_over(
    serving: Callable[..., tuple[str, str]],
) -> None:
    # As on a slow machine: without a bound, all of the flood would be inside before that is over.
    program = serving(
        "import time",
        "from treadle.server.editor.tenant import Editor",
        "load = Editor._load",
        f"Editor._load = lambda editor: (time.sleep({LOADING_SECONDS}), load(editor))[1]",
    )
    text = "and so on\n" * (LARGE_CHARACTERS // 10)
    async with ModelServer(digested) as server, daemon(program=program, env=on(server)) as client:
        before = peak_resident_bytes(client.process.pid)
        client.patience_seconds = FLOOD_PATIENCE_SECONDS
        editor = NoisyEditor(SEED)
        client.send(editor.opened(FLOODED, text).message)
        answers = []
        # All of it is sent before pygls is there to take any.
        for number in range(FLOOD):
            client.send(editor.changed(FLOODED, [{"text": f"{text}{number}"}]).message)
            answers.append(client.ask("session/list"))
        client.send(editor.changed(FLOODED, [{"text": "the end"}]).message)
        async with asyncio.timeout(FLOOD_PATIENCE_SECONDS):
            await client.stdin.drain()
        assert [await answer for answer in answers] == [{"sessions": []}] * FLOOD
        digest = await _seen(client, FLOODED, "flooded")
        assert digest == _digest(f"Contents of {FLOODED}:\nthe end")
        assert peak_resident_bytes(client.process.pid) - before < FLOOD_BYTES
        assert await client.end() == 0
