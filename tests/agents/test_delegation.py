"""Whatever two agents are, the one that works for the other may do nothing that either may not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition, SandboxKind
from treadle.agents.delegation import CannotWorkFor, check_model, within
from treadle.agents.options import advertised_tools
from treadle.agents.servers import name_of
from treadle.mcp.declaration import ServerDeclaration
from treadle.models.spec import EMBEDDED, ModelSpec
from treadle.permissions.modes import MODES, is_stricter_or_equal
from treadle.sandbox.paths import is_within
from treadle.tools.builtin import BUILTIN
from treadle.tools.tool import Tool, tool
from treadle.tools.web.backend import SearchBackend

FOLDERS = [Path("/treadle-none"), *(Path("/treadle-none", name) for name in ("a", "a/b", "c"))]
SERVERS = [ServerDeclaration("a", "x"), ServerDeclaration("a", "y"), "b", "c"]
MCP_TOOLS = ["a__x", "a__y", "b__x"]
HOSTS = ["example.org", "docs.example.org", "example.com"]
SEARCHING = Config(search=SearchBackend("https://s.example/?q={query}"))


def _own(said: str) -> Tool:
    @tool(capability="read")
    async def mine() -> str:
        """Say something."""
        return said

    return mine


OWN = [_own("a"), _own("b")]


@st.composite
def agents(draw: st.DrawFn, name: str) -> AgentDefinition:
    """Make any agent as a file may say it."""
    kinds: list[SandboxKind] = ["virtual", "local"]
    kind = draw(st.sampled_from(kinds))
    folders = st.sampled_from(FOLDERS)
    return AgentDefinition(
        name,
        permissions=draw(st.sampled_from(MODES)),
        sandbox=kind,
        cwd=draw(st.none() | folders) if kind == "local" else None,
        tools=draw(st.none() | st.lists(st.sampled_from([*BUILTIN]), unique=True).map(tuple)),
        fetch_allow=tuple(draw(st.lists(st.sampled_from(HOSTS), unique=True))),
        skills=draw(st.sampled_from([(), ("triage",)])),
        own_tools=tuple(draw(st.lists(st.sampled_from(OWN), max_size=1))),
        mcp_servers=tuple(draw(st.lists(st.sampled_from(SERVERS), unique_by=name_of))),
        mcp_allow=tuple(draw(st.lists(st.sampled_from(MCP_TOOLS), unique=True))),
        mcp_tools=draw(st.none() | st.lists(st.sampled_from(MCP_TOOLS), unique=True).map(tuple)),
    )


def _left(agent: AgentDefinition) -> Sequence[str]:
    return MCP_TOOLS if agent.mcp_tools is None else agent.mcp_tools


@given(agents("helper"), agents("boss"), st.sampled_from(FOLDERS))
def test_nothing_widens(helper: AgentDefinition, boss: AgentDefinition, opened: Path) -> None:
    if boss.sandbox == "local" and boss.cwd is None:
        boss = replace(boss, cwd=opened)
    tools = advertised_tools(boss, SEARCHING)
    try:
        got = within(helper, boss, tools)
    except CannotWorkFor:
        assert helper.sandbox == boss.sandbox == "local"
        assert not is_within(helper.cwd or boss.cwd or opened, boss.cwd or opened)
        return
    told = advertised_tools(got, SEARCHING)
    for mine in (helper, boss):
        assert is_stricter_or_equal(got.permissions, than=mine.permissions)
        assert all(mine.policy.allows_host(host) for host in got.fetch_allow)
        assert {*got.mcp_servers} <= {*mine.mcp_servers}
        assert {*got.policy.mcp_allow} <= {*mine.mcp_allow}
        assert mine.mcp_tools is None or {*_left(got)} <= {*mine.mcp_tools}
        if got.sandbox == "local":
            assert mine.sandbox == "local"
            assert mine.cwd is None or is_within(Path(os.path.realpath(got.cwd or "")), mine.cwd)
        for one in told:
            capability = one.capability
            ranks = {"refuse": 0, "ask": 1, "allow": 2}
            verdict = got.policy.verdict(one.spec.name, capability)
            assert ranks[verdict] <= ranks[mine.policy.verdict(one.spec.name, capability)]
    assert all(any(one is theirs for theirs in tools) for one in told)
    own_names = {one.spec.name for one in advertised_tools(helper, SEARCHING)}
    assert {one.spec.name for one in told} <= own_names - {"task"}
    assert got.cwd is not None or got.sandbox == "virtual"


def test_an_agent_that_tells_nobody_has_no_helper_that_tells_somebody() -> None:
    helper, elsewhere = AgentDefinition("helper"), ModelSpec("endpoint", "gpt-x")
    for model in ("embedded", "scripted:/a.jsonl"):
        with pytest.raises(CannotWorkFor, match="gpt-x, elsewhere"):
            check_model(helper, AgentDefinition("boss", model=model), elsewhere)
        check_model(helper, AgentDefinition("boss", model=model), EMBEDDED)
    check_model(helper, AgentDefinition("boss", model="gpt-y"), elsewhere)
    check_model(helper, AgentDefinition("boss"), elsewhere)
