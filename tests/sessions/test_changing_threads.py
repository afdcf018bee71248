"""`session/fork`, `session/rewind` and `session/delete`, and pages of a thread that changes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text, memory
from support.person import conversation, on, pair, stored, write_agent, write_config
from treadle.thread.paths import shown_path
from treadle.thread.replay import load

# The beginning of every such image is enough.
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def echo(request: Request) -> Answer:
    return Answer(f"Re {last_user_text(request)}")


async def told(client: Daemon, instance: str, *texts: str) -> None:
    for text in texts:
        await client.request("session/prompt", pair(instance, prompt=text))


async def said(client: Daemon, instance: str, **params: Any) -> list[str]:
    """Return what a session's pages hold, one text after the other."""
    texts: list[str] = []
    cursor = None
    while True:
        page = await client.request("session/read", pair(instance, cursor=cursor, **params))
        texts += [one["content"] for one in page["messages"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            return texts


async def refused(client: Daemon, method: str, params: dict[str, Any]) -> tuple[int, str, Any]:
    """Return code, reason and data of the error that a request is answered with."""
    with pytest.raises(RpcError) as error:
        await client.request(method, params)
    return error.value.code, error.value.reason or "", error.value.data


async def test_a_fork_is_a_session_of_its_own_with_what_was_said_before() -> None:
    async with conversation(echo) as (client, server):
        await told(client, "a", "one", "two")
        forked = await client.request("session/fork", pair("a", into="b"))
        early = await client.request("session/fork", pair("a", into="c", at=1))
        empty = await client.request("session/fork", pair("a", into="d", at=-1))
        await told(client, "b", "three")
        seen = [one["content"] for one in server.requests[-1]["messages"][1:]]
        await told(client, "a", "four")

        assert forked == {
            "created": True,
            "state": "idle",
            "thread": {
                "path": str(stored("assistant", "b")),
                "messages": 4,
                "turns": 2,
                "updatedAt": forked["thread"]["updatedAt"],
            },
            "report": {"quarantinedLines": 0, "tornBytes": 0, "repairedCalls": 0},
            "mcp": [],
        }
        assert [each["thread"]["messages"] for each in (early, empty)] == [2, 0]
        assert seen == ["one", "Re one", "two", "Re two", "three"]
        assert await said(client, "b") == [*seen, "Re three"]
        assert await said(client, "a") == ["one", "Re one", "two", "Re two", "four", "Re four"]


async def test_the_reply_of_a_fork_comes_before_the_events_of_the_copy() -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", "one")
        forking = client.ask("session/fork", pair("a", into="b"))
        prompting = client.ask("session/prompt", pair("b", prompt="two"))
        await asyncio.gather(forking, prompting)
        of_b = [
            "reply" if one.get("id") == forking.request_id else one["method"]
            for one in client.log
            if one.get("id") == forking.request_id or one.get("params", {}).get("instance") == "b"
        ]
    assert of_b[0] == "reply"
    assert "session/done" in of_b


async def test_what_cannot_be_forked_says_why_and_leaves_nothing() -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", "one")
        await told(client, "closed", "x")
        await client.request("session/close", pair("closed"))
        before = stored("assistant", "closed").read_bytes()

        for into in ("a", "closed"):
            told_of = await refused(client, "session/fork", pair("a", into=into))
            path = str(stored("assistant", into))
            assert told_of == (-32803, "thread_exists", {"reason": "thread_exists", "path": path})
        assert (await refused(client, "session/fork", pair("a", into="b", at=2)))[1] == (
            "no_such_ordinal"
        )
        assert (await refused(client, "session/fork", pair("nobody", into="b")))[1] == (
            "unknown_session"
        )
        for params in ({"into": ""}, {"into": "b", "at": -2}, {}):
            code, _, data = await refused(client, "session/fork", pair("a", **params))
            assert (code, data["path"]) == (-32602, "at" if "at" in params else "into")
        assert stored("assistant", "closed").read_bytes() == before
        assert not stored("assistant", "b").exists()
        assert not stored("assistant", "nobody").exists()
        assert await said(client, "a") == ["one", "Re one"]


async def test_a_running_session_is_forked_up_to_its_last_finished_step() -> None:
    write_agent("reader", tools="[read]", sandbox="virtual")
    go_on = asyncio.Event()

    def answer(request: Request) -> Answer:
        if request["messages"][-1]["role"] == "tool":
            return Answer("late", pause_after=0, go_on=go_on)
        if last_user_text(request) == "look":
            return Answer(calls=[("read", {"path": "x"})])
        return Answer("fine")

    async with conversation(answer) as (client, _):
        await client.request("session/prompt", pair("a", "reader", prompt="one"))
        running = client.ask("session/prompt", pair("a", "reader", prompt="look"))
        await client.until(lambda: bool(client.of("session/toolResult")))
        first = await client.request("session/fork", pair("a", "reader", into="b"))
        listed = (await client.request("session/read", pair("b", "reader")))["messages"]
        go_on.set()
        await running
        prompted = await client.request("session/prompt", pair("b", "reader", prompt="two"))

    assert first["thread"]["messages"] == 5
    assert [one["role"] for one in listed] == ["user", "assistant", "user", "assistant", "tool"]
    assert prompted["text"] == "fine"


@pytest.mark.parametrize("durability", ["file", "memory"])
async def test_a_rewound_session_goes_on_from_there_with_marks(durability: str) -> None:
    write_config(f'[sessions]\ndurability = "{durability}"\n')
    async with conversation(echo) as (client, server):
        await told(client, "a", "one", "two", "three")
        left = await client.request("session/rewind", pair("a", to=1))
        again = await client.request("session/rewind", pair("a", to=1))
        gone = await refused(client, "session/rewind", pair("a", to=3))
        await told(client, "a", "four")
        seen = [one["content"] for one in server.requests[-1]["messages"][1:]]
        full = (await client.request("session/read", pair("a")))["messages"]
        view = await said(client, "a", view="model")
        emptied = await client.request("session/rewind", pair("a", to=-1))
        await told(client, "a", "five")

        assert left == again == {"messages": 2}
        assert gone == (-32803, "no_such_ordinal", {"reason": "no_such_ordinal"})
        assert seen == ["one", "Re one", "four"]
        assert view == [*seen, "Re four"]
        assert [one["ordinal"] for one in full] == list(range(8))
        assert [one.get("rewound", False) for one in full] == [False] * 2 + [True] * 4 + [False] * 2
        assert emptied == {"messages": 0}
        assert len(server.requests[-1]["messages"]) == 2


async def test_a_rewind_waits_behind_the_turns_that_were_asked_before_it() -> None:
    go_on = asyncio.Event()

    def answer(request: Request) -> Answer:
        return Answer(f"Re {last_user_text(request)}", pause_after=0, go_on=go_on)

    async with conversation(answer) as (client, _):
        first = client.ask("session/prompt", pair("a", prompt="one"))
        second = client.ask("session/prompt", pair("a", prompt="two"))
        rewinding = client.ask("session/rewind", pair("a", to=1))
        third = client.ask("session/prompt", pair("a", prompt="three"))
        await client.until(lambda: bool(client.of("session/state")))
        assert not rewinding.done()
        go_on.set()
        await asyncio.gather(first, second, third)
        assert await rewinding == {"messages": 2}
        assert await said(client, "a", view="model") == ["one", "Re one", "three", "Re three"]


async def test_a_closed_session_is_opened_to_be_rewound_and_a_new_one_has_nothing() -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", "one", "two")
        await client.request("session/close", pair("a"))
        assert await client.request("session/rewind", pair("a", to=0)) == {"messages": 1}
        assert (await refused(client, "session/rewind", pair("new", to=0)))[1] == "no_such_ordinal"
        assert (await refused(client, "session/rewind", pair("a", to=-2)))[0] == -32602
        assert await client.request("session/rewind", pair("new", to=-1)) == {"messages": 0}


async def test_a_deleted_session_leaves_nothing_and_begins_afresh() -> None:
    async with conversation(echo) as (client, server):
        path = stored("assistant", "a")
        image = {"type": "image", "data": PNG, "mimeType": "image/png"}
        await client.request(
            "session/prompt", pair("a", prompt=[{"type": "text", "text": "look"}, image])
        )
        path.with_suffix(".damaged").write_bytes(b"a bad line\n")
        shown_path(path).parent.mkdir(parents=True)
        shown_path(path).write_text("one")
        deleted = [await client.request("session/delete", pair("a")) for _ in range(2)]
        left = [entry for entry in path.parents[2].rglob("*") if entry.is_file()]
        told_of = await refused(client, "session/read", pair("a"))
        listed = await client.request("session/list")
        await told(client, "a", "two")

        assert deleted == [{"deleted": True}, {"deleted": False}]
        assert left == []
        assert told_of[1] == "unknown_session"
        assert listed == {"sessions": []}
        assert len(server.requests[-1]["messages"]) == 2
        assert [one["content"] for one in (await _messages(client, "a"))] == ["two", "Re two"]


async def _messages(client: Daemon, instance: str) -> list[Any]:
    return list((await client.request("session/read", pair(instance)))["messages"])


async def test_a_deletion_stops_the_turn_and_what_waits_and_what_comes_after_it_runs() -> None:
    asked = asyncio.Event()

    def answer(request: Request) -> Answer:
        if last_user_text(request) == "after":
            return Answer("afresh")
        asked.set()
        return Answer("never", pause_after=0)

    async with conversation(answer) as (client, _):
        running = client.ask("session/prompt", pair("a", prompt="runs"))
        waiting = client.ask("session/prompt", pair("a", prompt="waits"))
        await asked.wait()
        deleting = client.ask("session/delete", pair("a"))
        after = client.ask("session/prompt", pair("a", prompt="after"))
        outcomes = await asyncio.gather(running, waiting, after)

        assert await deleting == {"deleted": True}
        assert [one["stopReason"] for one in outcomes] == ["closed", "closed", "end_turn"]
        assert (outcomes[2]["turn"], outcomes[2]["text"]) == (1, "afresh")
        assert [one["content"] for one in await _messages(client, "a")] == ["after", "afresh"]


async def test_a_session_that_another_daemon_holds_is_not_deleted_but_can_be_forked() -> None:
    async with (
        ModelServer(memory) as server,
        daemon(env=on(server)) as owner,
        daemon(env=on(server)) as other,
    ):
        await told(owner, "a", "My name is Mac.")
        held = await refused(other, "session/delete", pair("a"))
        rewound = await refused(other, "session/rewind", pair("a", to=0))
        forked = await other.request("session/fork", pair("a", into="b"))
        pid = owner.process.pid

        code, reason, data = held
        assert (code, reason, data["pid"]) == (-32803, "thread_locked", pid)
        assert rewound[:2] == held[:2]
        assert forked["thread"]["messages"] == 2
        assert len(await _messages(owner, "a")) == 2
        await owner.request("session/close", pair("a"))
        assert await other.request("session/delete", pair("a")) == {"deleted": True}


async def test_of_two_daemons_that_fork_into_one_name_one_does() -> None:
    async with (
        ModelServer(echo) as server,
        daemon(env=on(server)) as one,
        daemon(env=on(server)) as two,
    ):
        await told(one, "a", "hello")
        for number in range(10):
            into = f"b{number}"
            forks = [each.ask("session/fork", pair("a", into=into)) for each in (one, two)]
            ended = await asyncio.gather(*forks, return_exceptions=True)
            (lost,) = [each for each in ended if isinstance(each, RpcError)]
            assert lost.reason in ("thread_exists", "thread_locked")
            assert len(load(stored("assistant", into)).messages) == 2


async def test_in_memory_a_session_is_forked_and_deleted_alike() -> None:
    write_config('[sessions]\ndurability = "memory"\n')
    async with conversation(echo) as (client, _):
        await told(client, "a", "one", "two")
        await client.request("session/fork", pair("a", into="b"))
        await client.request("session/fork", pair("a", into="c", at=1))
        assert (await refused(client, "session/fork", pair("a", into="c")))[1] == "thread_exists"
        assert (await refused(client, "session/fork", pair("a", into="d", at=9)))[1] == (
            "no_such_ordinal"
        )
        await told(client, "c", "three")
        assert await said(client, "b", view="model") == ["one", "Re one", "two", "Re two"]
        assert await said(client, "c", view="model") == ["one", "Re one", "three", "Re three"]
        assert await client.request("session/delete", pair("b")) == {"deleted": True}
        assert await client.request("session/delete", pair("b")) == {"deleted": False}
        await told(client, "b", "afresh")
        assert await said(client, "b") == ["afresh", "Re afresh"]


async def test_the_newest_messages_are_read_without_paging_through_all() -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", *"12345")
        whole = await said(client, "a")
        for view in ("full", "model"):
            for is_open in (True, False):
                for last, limit in ((3, 200), (3, 2), (10, 3), (99, 4), (1, 1)):
                    params = {"last": last, "limit": limit, "view": view}
                    page = await client.request("session/read", pair("a", **params))
                    texts = [one["content"] for one in page["messages"]]
                    assert texts == whole[-last:][:limit], (view, is_open, last, limit)
                    rest = whole[-last:][limit:]
                    if rest:
                        cursor = {"cursor": page["nextCursor"], "view": view, "last": last}
                        after = await client.request("session/read", pair("a", **cursor))
                        assert [one["content"] for one in after["messages"]] == rest
                    else:
                        assert "nextCursor" not in page
                if is_open and view == "model":
                    await client.request("session/close", pair("a"))
        assert (await refused(client, "session/read", pair("a", last=0)))[2] == {"path": "last"}
        empty = await client.request("session/resume", pair("none"))
        assert empty["thread"]["messages"] == 0
        assert await client.request("session/read", pair("none", last=5)) == {"messages": []}


@pytest.mark.parametrize("view", ["full", "model"])
async def test_a_cursor_stays_right_while_the_thread_grows_and_is_rewound(view: str) -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", *"123")
        first = await client.request("session/read", pair("a", view=view, limit=3))
        cursor = {"cursor": first["nextCursor"], "view": view}
        await told(client, "a", "4")
        grown = await client.request("session/read", pair("a", **cursor))
        await client.request("session/rewind", pair("a", to=1))
        await told(client, "a", "5")
        rewound = await client.request("session/read", pair("a", **cursor))

        def texts(page: dict[str, Any]) -> list[tuple[str, bool]]:
            return [(one["content"], one.get("rewound", False)) for one in page["messages"]]

        assert texts(first) == [("1", False), ("Re 1", False), ("2", False)]
        rest = ["Re 2", "3", "Re 3", "4", "Re 4"]
        assert texts(grown) == [(text, False) for text in rest]
        gone = [(text, True) for text in rest] if view == "full" else []
        assert texts(rewound) == [*gone, ("5", False), ("Re 5", False)]


async def test_a_cursor_of_one_view_is_none_of_the_other() -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", *"12")
        for view, cursor in (("full", "2.0"), ("model", "2"), ("model", "x.1"), ("model", ".")):
            code, _, data = await refused(
                client, "session/read", pair("a", view=view, cursor=cursor)
            )
            assert (code, data) == (-32602, {"path": "cursor"})


async def test_editors_that_only_know_commands_can_do_it_all() -> None:
    async with conversation(echo) as (client, _):
        await told(client, "a", "one", "two")

        async def run(command: str, *arguments: Any) -> Any:
            params = {"command": f"treadle.session.{command}", "arguments": list(arguments)}
            return await client.request("workspace/executeCommand", params)

        assert (await run("fork", "assistant", "a", "b"))["created"]
        assert await run("rewind", "assistant", "b", "1") == {"messages": 2}
        assert await run("rewind", pair("b", to=0)) == {"messages": 1}
        assert await run("delete", "assistant", "b") == {"deleted": True}
        assert await run("delete", pair("b")) == {"deleted": False}
        shown = [one["message"] for one in client.of("window/showMessage")]

    assert shown == [
        "A copy with 4 messages, open.",
        "The conversation holds 2 messages.",
        "The conversation holds 1 message.",
        "Deleted.",
        "There was nothing to delete.",
    ]
