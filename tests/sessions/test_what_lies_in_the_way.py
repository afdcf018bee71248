"""What lies in the place of a session's files: named, or waited for until it is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.daemon import Daemon, RpcError
from support.person import by_text, conversation, pair, stored
from treadle.folders import CACHE_VARIABLE
from treadle.thread.replay import load


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what cannot be written away from the person's own folders."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def _is_storage(client: Daemon, storage: str) -> bool:
    states = client.of("session/state")
    return bool(states) and states[-1]["storage"] == storage


async def test_what_lies_beside_a_thread_is_named_until_it_is_gone() -> None:
    path = stored("assistant", "x")
    strange = path.with_suffix(".deleting")
    strange.mkdir(parents=True)
    async with conversation(by_text({})) as (client, _):
        for method, members in (
            ("session/prompt", {"prompt": "Hello"}),
            ("session/resume", {}),
            ("session/delete", {}),
        ):
            with pytest.raises(RpcError) as refused:
                await client.request(method, pair("x", **members))
            assert refused.value.data == {"reason": "thread_unreadable", "path": str(strange)}
        strange.rmdir()
        answer = await client.request("session/prompt", pair("x", prompt="Hello"))
    assert answer["text"] == "Fine."


async def test_a_folder_that_a_file_replaced_under_a_session_is_waited_for() -> None:
    path = stored("assistant", "x")
    async with conversation(by_text({})) as (client, _):
        await client.request("session/prompt", pair("x", prompt="Hello"))
        shutil.rmtree(path.parent)
        path.parent.write_bytes(b"")
        answer = await client.request("session/prompt", pair("x", prompt="Still there?"))
        assert (answer["text"], answer["turn"]) == ("Fine.", 1)
        await client.until(lambda: _is_storage(client, "degraded"))
        path.parent.unlink()
        await client.until(lambda: _is_storage(client, "ok"))
        assert [one.text for one in load(path).messages] == ["Still there?", "Fine."]
