"""The servers of sessions in the test's own loop: what is kept of them, and whose they are."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.mcp.host import lines
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle import secrets
from treadle.errors import McpFailed
from treadle.folders import find_folders
from treadle.mcp import server, session_servers
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.pool import Pool
from treadle.mcp.session_servers import SessionServers
from treadle.permissions.policy import Policy
from treadle.tools.tool import Tool

AUTO = Policy("auto")
VARIABLE = "TOKEN_OF_A_TEST"
SECRET = "what-no-model-is-told"

# Says what it was told wherever a server can say something.
BLABS = f"""
told = {SECRET!r}
def initialize(request):
    answer(request, {{
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {{"tools": {{}}, "prompts": {{}}}},
        "serverInfo": {{"name": told, "version": told}},
    }})
def list(request):
    if request["method"] != "tools/list":
        return fail(request, text=told)
    # The secret lies across the place at which a description is cut.
    long = "x" * (10_000 - 5) + told
    schema = {{"type": "object", "properties": {{told: {{"default": told}}}}}}
    answer(request, {{"tools": [
        {{"name": "a", "title": told, "description": told, "inputSchema": schema}},
        {{"name": "b", "description": long, "annotations": {{"title": told}}}},
        {{"name": told}},
    ]}})
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer to load the SDK than a prompt ever waits."""
    monkeypatch.setattr(session_servers, "PATIENCE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool(find_folders())
    yield made
    await made.close()


def declared(*program: str, **fields: Any) -> ServerDeclaration:
    return ServerDeclaration("it", command=sys.executable, args=lines(*program), **fields)


async def tools_of(session: SessionServers, declaration: ServerDeclaration) -> list[Tool]:
    """Begin a turn, and return the tools that its first pass has."""
    session.begin_turn(AUTO)
    return list(await session.source([declaration], AUTO)())


async def test_nothing_that_a_server_says_of_itself_tells_a_secret(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setattr(secrets, "_names", (VARIABLE,))
    session = SessionServers(pool, "agent", lambda status: None)
    declaration = declared(BLABS)
    await session.use([declaration], None)
    tools = await tools_of(session, declaration)
    assert [tool.spec.name for tool in tools] == ["it__a", "it__b"]
    shown = repr([tool.spec for tool in tools]) + repr(session.statuses())
    assert f"[secret {VARIABLE}]" in shown
    assert SECRET[:5] not in shown
    with pytest.raises(McpFailed, match=r"\[secret TOKEN_OF_A_TEST\]"):
        await session.prompts("it")
    (kept,) = find_folders().cache.rglob("*.json")
    assert json.loads(kept.read_bytes())["tools"][0]["description"] == f"[secret {VARIABLE}]"
    assert SECRET[:5] not in kept.read_text()


QUOTED = f"""
def initialize(request):
    told = {{"protocolVersion": "no\\n" + {SECRET!r}, "capabilities": {{}}}}
    answer(request, {{**told, "serverInfo": {{"name": "", "version": ""}}}})
"""


async def test_why_a_server_failed_is_told_in_a_line_without_a_secret(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setattr(secrets, "_names", (VARIABLE,))
    session = SessionServers(pool, "agent", lambda status: None)
    declaration = declared(QUOTED)
    await session.use([declaration], None)
    assert await tools_of(session, declaration) == []
    (status,) = session.statuses()
    assert (status.state, SECRET in status.error) == ("failed", False)
    assert f"Unsupported protocol version from the server: no [secret {VARIABLE}]" in status.error


async def test_what_is_called_secret_later_is_so_in_what_is_remembered(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    declaration = declared(BLABS)
    before = SessionServers(pool, "agent", lambda status: None)
    await before.use([declaration], None)
    await tools_of(before, declaration)
    await before.close()
    monkeypatch.setattr(secrets, "_names", (VARIABLE,))
    session = SessionServers(pool, "agent", lambda status: None)
    await session.use([declaration], None)
    assert session.statuses()[0].tools == ("it__a", "it__b")
    assert SECRET not in repr([tool.spec for tool in await tools_of(session, declaration)])


async def test_tools_that_cannot_be_remembered_are_there_all_the_same(pool: Pool) -> None:
    cache = find_folders().cache
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "mcp").write_text("no folder")
    session = SessionServers(pool, "agent", lambda status: None)
    declaration = declared()
    await session.use([declaration], None)
    tools = await tools_of(session, declaration)
    assert "it__echo" in [tool.spec.name for tool in tools]
    assert session.statuses()[0].state == "ready"


async def test_a_shared_server_stays_where_the_folder_of_a_session_changes(
    pool: Pool, tmp_path: Path
) -> None:
    session = SessionServers(pool, "agent", lambda status: None)
    other = SessionServers(pool, "agent", lambda status: None)
    declaration = declared(scope="agent")
    await session.use([declaration], None)
    await tools_of(session, declaration)
    (before,) = session.statuses()
    await session.use([declaration], tmp_path)
    await other.use([declaration], None)
    # Its own user still: whoever leaves does not take it along.
    assert await other.close() == []
    assert session.statuses() == [before]
    assert before.state == "ready"
    (end,) = await session.close()
    assert end.pid == before.pid


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (None, ["it__echo", "it__list_resources", "it__read_resource"]),
        (("echo",), ["it__echo"]),
        (("read_*",), ["it__read_resource"]),
        ((), []),
    ],
)
async def test_only_the_tools_that_are_named_are_taken_and_of_those_for_resources_too(
    pool: Pool, wanted: tuple[str, ...] | None, there: list[str]
) -> None:
    session = SessionServers(pool, "agent", lambda status: None)
    declaration = declared(tools=wanted)
    await session.use([declaration], None)
    assert [tool.spec.name for tool in await tools_of(session, declaration)] == there


# Tells of changes; each third time there is one.
RESTLESS = """
import threading
listed = []
def list(request):
    if request["method"] != "tools/list": return fail(request)
    listed.append(1)
    answer(request, {"tools": [{"name": f"n{len(listed) // 3}"}]})
    threading.Timer(0.01, write, ({"method": "notifications/tools/list_changed"},)).start()
"""


async def test_a_server_that_lists_the_same_again_is_no_news(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LIST_GAP_SECONDS", 0.0)
    told: list[tuple[str, ...]] = []
    session = SessionServers(pool, "agent", lambda status: told.append(status.tools))
    declaration = declared(RESTLESS, tools=("n*",))
    await session.use([declaration], None)
    await tools_of(session, declaration)
    await until_seen(lambda: ("it__n3",) in told)
    # Further news may have come meanwhile.
    assert told[:5] == [(), *((f"it__n{number}",) for number in range(4))]
