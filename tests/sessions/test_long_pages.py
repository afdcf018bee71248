"""Pages of long messages: each reply is bounded, and nothing that was said is out of reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, daemon
from support.line import Line
from support.person import pair, stored
from treadle.server.cutting import MESSAGE_BYTES
from treadle.thread.message import Message, encode_line
from treadle.thread.paths import thread_path
from treadle.thread.reading import PAGE_BYTES

MEGABYTE = 10**6
AT = "2026-01-01T00:00:00.000Z"


def write_thread(path: Path, *texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    messages = [Message("user", text, at=AT, turn=1) for text in texts]
    path.write_bytes(b"".join(encode_line(message) + b"\n" for message in messages))


async def pages_of(client: Daemon, **params: Any) -> list[list[Any]]:
    pages = [await client.request("session/read", params)]
    while cursor := pages[-1].get("nextCursor"):
        pages.append(await client.request("session/read", {**params, "cursor": cursor}))
    return [page["messages"] for page in pages]


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
async def test_a_page_of_long_messages_ends_early_and_the_next_one_goes_on(is_open: bool) -> None:
    texts = [f"{number}" * MEGABYTE for number in range(9)]
    write_thread(stored("assistant", "long"), *texts)
    async with daemon() as client:
        if is_open:
            await client.request("session/resume", pair("long"))
        full = await pages_of(client, **pair("long", limit=1000))
        view = await pages_of(client, **pair("long", limit=1000, view="model"))
        last = await pages_of(client, **pair("long", limit=1000, last=5))

    assert [len(page) for page in full] == [4, 4, 1]
    assert [message["content"] for page in full for message in page] == texts
    assert view == full
    assert [len(page) for page in last] == [4, 1]
    assert [message["ordinal"] for page in last for message in page] == [4, 5, 6, 7, 8]


async def test_a_message_that_is_longer_than_a_page_has_one_to_itself() -> None:
    texts = ["before", "x" * (PAGE_BYTES + 1), "behind"]
    write_thread(stored("assistant", "long"), *texts)
    async with daemon() as client:
        pages = await pages_of(client, **pair("long"))

    assert [[message["content"] for message in page] for page in pages] == [
        [each] for each in texts
    ]


async def test_a_message_that_no_reply_could_carry_is_cut_and_says_where_the_whole_is() -> None:
    path = stored("assistant", "long")
    write_thread(path, "before", "x" * (MESSAGE_BYTES + MEGABYTE), "behind")
    async with daemon() as client:
        before, (long,), behind = await pages_of(client, **pair("long"))
        assert await client.end() == 0

    told = long.pop("truncated")
    text = long.pop("content")
    assert long == {"ordinal": 1, "role": "user", "at": AT, "turn": 1}
    assert text == "x" * len(text)
    assert told == {"bytes": MESSAGE_BYTES + MEGABYTE - len(text), "path": str(path)}
    assert MEGABYTE < told["bytes"] < MEGABYTE + 1000
    assert [one["content"] for one in before + behind] == ["before", "behind"]
    assert not any("truncated" in one for one in before + behind)


async def test_pages_that_are_asked_for_at_once_come_as_they_are_taken(tmp_path: Path) -> None:
    line = Line(tmp_path)
    write_thread(thread_path(line.folders.data, "assistant", "i"), "hi")
    line.pending_bytes = 100 << 20
    for number in range(9):
        line.send(id=number, method="session/read", params=pair("i"))
    line.send(id="other", method="session/list")
    await line.reply("other")
    for number in (3, 8):
        line.send(method="$/cancelRequest", params={"id": number})
        assert (await line.reply(number))["error"]["code"] == -32800
    assert not line.replies(0)

    line.pending_bytes = 0
    line.connection.client_reads_again()

    for number in (0, 1, 2, 4, 5, 6, 7):
        result = (await line.reply(number))["result"]
        assert [message["content"] for message in result["messages"]] == ["hi"]
    await line.end()


async def test_a_client_that_goes_away_leaves_no_page_waiting(tmp_path: Path) -> None:
    line = Line(tmp_path)
    write_thread(thread_path(line.folders.data, "assistant", "i"), "hi")
    line.pending_bytes = 100 << 20
    for number in range(9):
        line.send(id=number, method="session/read", params=pair("i"))

    await line.end()

    assert [len(line.replies(number)) for number in range(9)] == [1] * 9
