"""What a client learns of MCP servers, from a session whose servers are fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.line import Line
from treadle.errors import McpFailed
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.remote import PromptArgument, RemotePrompt, RemoteResource
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.protocol.base import WireStruct
from treadle.runtime.holding import Closed, Holding
from treadle.runtime.outbox import Pair
from treadle.secrets import hold
from treadle.server import bridge
from treadle.server.handlers import mcp as handlers
from treadle.server.mcp_news import McpNews

HERE = {"agent": "assistant", "instance": "a"}


class Servers:
    """Servers of a session: `good` has everything, `bad` answers nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def statuses(self) -> list[ServerStatus]:
        return [
            ServerStatus("good", "ready", 41, ("good__look",)),
            ServerStatus("old", "stopped"),
            ServerStatus("bad", "failed", error="it ended", stderr_tail="no module"),
        ]

    async def prompts(self, server: str) -> tuple[RemotePrompt, ...]:
        self._answer("prompts", server)
        return (RemotePrompt("greet", "Says hello.", (PromptArgument("who", "name", True),)),)

    async def prompt(
        self, server: str, name: str, arguments: dict[str, str]
    ) -> tuple[tuple[str, dict[str, object]], ...]:
        self._answer("prompt", server, name, arguments)
        picture: dict[str, object] = {
            "type": "image",
            "data": "aGk=",
            "mimeType": "image/png",
            "annotations": {},
        }
        note = {"uri": "note:1", "text": "a hunter2hunter2", "mimeType": "text/plain"}
        return (
            ("user", {"type": "text", "text": "Hello, Mac"}),
            ("assistant", picture),
            ("user", {"type": "resource", "resource": note}),
            ("user", {"type": "resource_link", "uri": "note:2", "name": "two"}),
            ("user", {"type": "hologram", "depth": 3}),
        )

    async def resources(self, server: str) -> tuple[RemoteResource, ...]:
        self._answer("resources", server)
        return (
            RemoteResource("note:1", "One", "the first", "text/plain"),
            RemoteResource("note:{n}", is_template=True),
        )

    async def close(self) -> list[ServerEnd]:
        return []

    def _answer(self, *asked: Any) -> None:
        self.asked.append(asked)
        if asked[1] != "good":
            raise McpFailed("it ended", server=asked[1], stderr_tail="no module")


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every agent declare two servers."""
    declared = (
        ServerDeclaration("good", command="good"),
        ServerDeclaration("bad", command="bad", scope="agent"),
    )
    monkeypatch.setattr(handlers, "servers_of", lambda agent, config: declared)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Give every session that holds something these servers."""
    fake = Servers()
    found = property(lambda self: fake if self.opened is not None else None)
    monkeypatch.setattr(Holding, "servers", found)
    return fake


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[Line]:
    line = Line(tmp_path)
    yield line
    await line.end()


async def ask(line: Line, method: str, **params: Any) -> Any:
    request_id = f"{method}-{len(line.log)}"
    line.send(id=request_id, method=method, params={**HERE, **params})
    reply = await line.reply(request_id)
    return reply.get("result", reply.get("error"))


async def test_what_an_agent_declares_is_listed_although_nothing_is_open(line: Line) -> None:
    assert await ask(line, "mcp/list") == {
        "servers": [
            {"server": "good", "state": "stopped", "tools": [], "shared": False},
            {"server": "bad", "state": "stopped", "tools": [], "shared": True},
        ]
    }
    assert line.runtime.find(Pair(**HERE)) is None


async def test_an_open_sessions_servers_are_listed_in_the_order_of_the_agents_file(
    line: Line, servers: Servers
) -> None:
    await ask(line, "session/resume")
    failed = {"state": "failed", "lastError": "it ended", "stderrTail": "no module"}
    assert await ask(line, "mcp/list") == {
        "servers": [
            {
                "server": "good",
                "state": "ready",
                "pid": 41,
                "tools": ["good__look"],
                "shared": False,
            },
            {"server": "bad", **failed, "tools": [], "shared": False},
            {"server": "old", "state": "stopped", "tools": [], "shared": False},
        ]
    }
    assert servers.asked == []


async def test_a_list_of_nobodys_servers_is_an_error(line: Line) -> None:
    error = await ask(line, "mcp/list", agent="nobody")
    assert error["data"]["reason"] == "unknown_agent"


async def test_a_resume_tells_what_each_server_does(line: Line, servers: Servers) -> None:
    resumed = await ask(line, "session/resume")
    assert resumed["mcp"] == [
        {"server": "good", "state": "ready"},
        {"server": "old", "state": "stopped"},
        {"server": "bad", "state": "failed"},
    ]


async def test_prompts_of_all_servers_are_listed_and_a_dead_one_hides_none(
    line: Line, servers: Servers
) -> None:
    assert await ask(line, "mcp/prompts") == {
        "prompts": [
            {
                "server": "good",
                "name": "greet",
                "description": "Says hello.",
                "arguments": [{"name": "who", "description": "name", "required": True}],
            }
        ],
        "failed": [
            {"server": server, "message": "it ended", "stderrTail": "no module"}
            for server in ("bad", "old")
        ],
    }


async def test_a_server_that_is_asked_by_name_and_is_dead_is_an_error(
    line: Line, servers: Servers
) -> None:
    for method in ("mcp/prompts", "mcp/resources", "mcp/prompt"):
        error = await ask(line, method, server="bad", name="x")
        assert error["data"] == {
            "reason": "mcp_failed",
            "server": "bad",
            "stderrTail": "no module",
        }


async def test_a_prompt_comes_as_blocks_that_a_prompt_of_ours_takes(
    line: Line, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METHODS_KEY", "hunter2hunter2")
    hold("METHODS_KEY")
    said = await ask(line, "mcp/prompt", server="good", name="greet", arguments={"who": "Mac"})
    assert servers.asked == [("prompt", "good", "greet", {"who": "Mac"})]
    note = {"uri": "note:1", "text": "a [secret METHODS_KEY]", "mimeType": "text/plain"}
    blocks = [
        {"type": "text", "text": "Hello, Mac"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": note},
        {"type": "resource_link", "uri": "note:2", "name": "two"},
        {"type": "text", "text": '{"type": "hologram", "depth": 3}'},
    ]
    roles = ["user", "assistant", "user", "user", "user"]
    assert said == {
        "messages": [
            {"role": role, "content": [block]} for role, block in zip(roles, blocks, strict=True)
        ]
    }


async def test_resources_and_templates_are_listed(line: Line, servers: Servers) -> None:
    assert await ask(line, "mcp/resources", server="good") == {
        "resources": [
            {
                "server": "good",
                "uri": "note:1",
                "name": "One",
                "description": "the first",
                "mimeType": "text/plain",
            },
            {"server": "good", "uri": "note:{n}", "template": True},
        ]
    }


async def test_a_sessions_own_server_is_told_of_with_the_sessions_number(line: Line) -> None:
    await ask(line, "session/resume")
    session = line.runtime.session(Pair(**HERE))
    before = session.outbox.last_seq
    session.outbox.emit(ServerStatus("good", "ready", 41, ("good__look",)))
    session.outbox.emit(ServerStatus("good", "failed", error="it ended"), turn=3)
    told = [each["params"] for each in line.log if each.get("method") == "mcp/status"]
    assert told == [
        {
            **HERE,
            "seq": before + 1,
            "server": "good",
            "state": "ready",
            "pid": 41,
            "tools": ["good__look"],
        },
        {
            **HERE,
            "seq": before + 2,
            "turn": 3,
            "server": "good",
            "state": "failed",
            "error": "it ended",
        },
    ]


class Shared:
    """A pool that says what a test lets it say."""

    def __init__(self) -> None:
        self.watchers: list[Any] = []

    def watch(self, watcher: Any) -> None:
        self.watchers.append(watcher)

    def unwatch(self, watcher: Any) -> None:
        if watcher in self.watchers:
            self.watchers.remove(watcher)


def test_shared_servers_are_told_of_without_session_until_the_client_leaves() -> None:
    shared = Shared()
    sent: list[tuple[str, WireStruct]] = []
    news = McpNews(shared, lambda *told: sent.append(told), frozenset())
    shared.watchers[0]("assistant", ServerStatus("good", "restarting", error="lost"))
    ((method, params),) = sent
    assert method == "mcp/status"
    assert msgspec.to_builtins(params) == {
        "agent": "assistant",
        "server": "good",
        "state": "restarting",
        "error": "lost",
    }
    news.leave()
    news.leave()
    assert shared.watchers == []
    McpNews(shared, lambda *told: sent.append(told), frozenset({"mcp/status"}))
    assert shared.watchers == []


def test_a_close_tells_how_each_server_ended() -> None:
    ends = (ServerEnd("good", 41, 0, "end_of_input"), ServerEnd("far", None, None, "exit"))
    released = bridge.close_result(Closed(was_open=True, servers=ends)).released
    assert msgspec.to_builtins(released) == {
        "servers": [
            {"server": "good", "pid": 41, "exit": 0, "by": "end_of_input"},
            {"server": "far", "pid": None, "exit": None, "by": "exit"},
        ],
        "processes": [],
    }
