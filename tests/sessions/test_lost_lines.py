"""What a daemon can write nowhere, or not now: lost loudly, kept elsewhere, and never doubled."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon, serving_after
from support.model_server import Answer, ModelServer
from support.person import by_text, on, pair, stored
from treadle.folders import CACHE_VARIABLE
from treadle.server.ending import LOST_CODE
from treadle.thread.attachments import attachment
from treadle.thread.blobs import blobs_folder, check_blobs
from treadle.thread.lock import holder
from treadle.thread.replay import load

resource = pytest.importorskip("resource", reason="limits of files are a thing of Unix")

# A disk on which the main thread finds no room, and every other thread hangs for good: where
# threads lie, or where `FAULT` says so, everywhere.
HANGING_DISK = """
import errno, os, threading
from pathlib import Path
from treadle.thread import files
def write(descriptor, data):
    path, fault = Path(f"/proc/self/fd/{descriptor}").readlink(), Path(os.environ["FAULT"])
    if not fault.exists() or ("unsaved" in path.parts and not fault.read_text()):
        return os.write(descriptor, data)
    if threading.current_thread() is not threading.main_thread():
        threading.Event().wait()
    raise OSError(errno.ENOSPC, "No space left on device")
files.write = write
""".strip().splitlines()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what cannot be written away from the person's own folders."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@asynccontextmanager
async def without_any_room() -> AsyncIterator[Daemon]:
    """Run a daemon with an open session, in which no file can grow any more."""
    async with (
        ModelServer(by_text({})) as server,
        daemon(env=on(server), stderr=asyncio.subprocess.PIPE) as client,
    ):
        await client.request("session/prompt", pair("l", prompt="Hello"))
        if not hasattr(resource, "prlimit"):
            pytest.skip("only Linux limits another process")
        _, hard = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (0, hard))
        await client.request("session/prompt", pair("l", prompt="Lost"))
        yield client


async def _lost_by(client: Daemon) -> list[str]:
    """Return what standard error says is lost, once the daemon has ended."""
    assert client.process.stderr is not None
    lines = (await client.process.stderr.read()).decode().splitlines()
    return [line for line in lines if "LOST" in line]


async def _shut_down(client: Daemon) -> int:
    return await client.end()


async def _terminate(client: Daemon) -> int:
    client.process.send_signal(signal.SIGTERM)
    return await client.wait()


async def _end_input(client: Daemon) -> int:
    client.stdin.close()
    return await client.wait()


@pytest.mark.parametrize("end", [_shut_down, _terminate, _end_input])
async def test_a_daemon_that_could_keep_lines_nowhere_ends_with_a_failure_and_names_them(
    end: Callable[[Daemon], Coroutine[Any, Any, int]],
) -> None:
    async with without_any_room() as client:
        code = await end(client)
        told = await _lost_by(client)
    path = stored("assistant", "l")
    assert (code, told) == (
        LOST_CODE,
        [f"treadle: CRITICAL LOST: the last 4 lines of the thread {path}: File too large"],
    )
    assert [message.text for message in load(path).messages] == ["Hello", "Fine."]


async def test_a_close_that_lost_lines_is_told_again_by_the_exit() -> None:
    async with without_any_room() as client:
        with pytest.raises(RpcError) as refused:
            await client.request("session/close", pair("l"))
        code = await client.end()
        told = await _lost_by(client)
    assert (refused.value.reason, code, len(told)) == ("storage_degraded", LOST_CODE, 1)


async def test_an_image_that_could_not_be_written_comes_back_with_its_line(cache: Path) -> None:
    sent = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    path = stored("assistant", "i")
    async with ModelServer(lambda _: Answer("A cat.")) as server:
        async with daemon(env=on(server)) as client:
            await client.request("session/prompt", pair("i", prompt="Hello"))
            # A file in the folder's place fails for every user, whatever their rights.
            blobs_folder(path).touch()
            await client.request("session/prompt", pair("i", prompt=[sent]))
            code = await client.end()
        kept = len(list((cache / "unsaved").iterdir()))
        blobs_folder(path).unlink()
        async with daemon(env=on(server)) as heir:
            await heir.request("session/prompt", pair("i", prompt="And now?"))
    image = dict(attachment("image", b"\x89PNG\r\n\x1a\n", "image/png"))

    assert (code, kept) == (0, 1)
    assert [message.content for message in load(path).messages] == [
        *("Hello", "A cat.", [image], "A cat.", "And now?", "A cat.")
    ]
    assert check_blobs(path, load(path).messages) == []
    seen = [one for one in server.requests[-1]["messages"] if isinstance(one["content"], list)]
    assert [part["type"] for one in seen for part in one["content"]] == ["image_url"]
    assert list((cache / "unsaved").iterdir()) == []


async def test_a_device_that_hangs_holds_up_neither_a_close_nor_the_end(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, path = tmp_path / "fault", stored("assistant", "h")
    program = serving_after(tmp_path, *HANGING_DISK)
    async with ModelServer(by_text({})) as server:
        async with daemon(env={**on(server), "FAULT": str(fault)}, program=program) as client:
            await client.request("session/prompt", pair("h", prompt="Hello"))
            fault.touch()
            await client.request("session/prompt", pair("h", prompt="Kept?"))
            with pytest.raises(RpcError, match="does not answer") as refused:
                await client.request("session/close", pair("h"))
            held = holder(path)
            assert (held, await client.end()) == (client.process.pid, 0)
        [place] = (cache / "unsaved").iterdir()
        async with daemon(env=on(server)) as heir:
            await heir.request("session/prompt", pair("h", prompt="And now?"))

    assert refused.value.data == {"reason": "storage_degraded", "path": str(place)}
    texts = [message.text for message in load(path).messages]
    assert texts == ["Hello", "Fine.", "Kept?", "Fine.", "And now?", "Fine."]


async def test_lines_that_are_still_being_kept_when_the_daemon_has_to_end_are_named(
    tmp_path: Path,
) -> None:
    fault, path = tmp_path / "fault", stored("assistant", "h")
    env = {"FAULT": str(fault)}
    program = serving_after(tmp_path, *HANGING_DISK)
    async with (
        ModelServer(by_text({})) as server,
        daemon(
            env={**on(server), **env}, program=program, stderr=asyncio.subprocess.PIPE
        ) as client,
    ):
        await client.request("session/prompt", pair("h", prompt="Hello"))
        fault.write_text("everywhere")
        await client.request("session/prompt", pair("h", prompt="Lost"))
        code = await client.end()
        told = await _lost_by(client)
    assert (code, told) == (
        LOST_CODE,
        [
            f"treadle: CRITICAL LOST: the last 4 lines of the thread {path}: "
            "the daemon ended before that was kept elsewhere"
        ],
    )
