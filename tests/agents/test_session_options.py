"""A session's options narrow what an agent has, and never widen it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.agents import options as options_module
from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import is_local
from treadle.agents.options import SessionOptions, advertised_tools, narrow
from treadle.errors import InvalidParams, TreadleError, WouldWiden
from treadle.models.completion import ToolSpec
from treadle.permissions.modes import MODES, Capability, is_stricter_or_equal
from treadle.tools.builtin import BUILTIN
from treadle.tools.tool import Tool

deterministic = settings(derandomize=True, database=None, deadline=None)

LOCAL = AgentDefinition("x", permissions="ask", sandbox="local")

AGENT = AgentDefinition("x", permissions="ask")


async def _never(arguments: object, context: object) -> str:
    raise AssertionError("no tool is called here")


def _tool(name: str, capability: Capability) -> Tool:
    return Tool(ToolSpec(name, "", {}), capability, _never)


TOOLBOX = {
    "read": BUILTIN["read"],
    "write": _tool("write", "write"),
    "shell": _tool("shell", "shell"),
    "fetch": _tool("fetch", "network"),
}


@pytest.fixture
def toolbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tools of every capability, as later versions will."""
    monkeypatch.setattr(options_module, "BUILTIN", TOOLBOX)


def _refused(definition: AgentDefinition, options: SessionOptions) -> str:
    """Return the field that would be widened."""
    with pytest.raises(WouldWiden) as caught:
        narrow(definition, options)
    return str(caught.value.data["field"])


def _invalid(definition: AgentDefinition, options: SessionOptions) -> str:
    """Return the path that is invalid."""
    with pytest.raises(InvalidParams) as caught:
        narrow(definition, options)
    return str(caught.value.data["path"])


def test_no_options_change_nothing() -> None:
    assert narrow(AGENT, SessionOptions()) == AGENT


@pytest.mark.usefixtures("toolbox")
def test_what_is_narrower_is_what_the_session_gets(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    agent = replace(AGENT, cwd=tmp_path, sandbox="local", model="m", max_turns=9)
    options = SessionOptions(tmp_path / "below", "n", ("shell", "read"), "read_only", 3)
    assert narrow(agent, options) == replace(
        agent,
        cwd=(tmp_path / "below").resolve(),
        model="n",
        tools=("read", "shell"),
        mcp_tools=(),
        permissions="read_only",
        max_turns=3,
    )


def test_cwd_is_the_agents_own_folder_or_below_by_its_real_path(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    agent = replace(AGENT, cwd=inside, sandbox="local")
    assert narrow(agent, SessionOptions(inside)).cwd == inside.resolve()
    assert narrow(agent, SessionOptions(inside / "deep" / "..")).cwd == inside.resolve()
    for wider in (outside, tmp_path, inside / ".." / "outside", Path("/").absolute()):
        assert _refused(agent, SessionOptions(wider)) == "cwd"
    assert _refused(agent, SessionOptions(tmp_path / "inside2")) == "cwd"
    if sys.platform != "win32":
        (inside / "out").symlink_to(outside)
        (outside / "in").symlink_to(inside / "deep")
        assert _refused(agent, SessionOptions(inside / "out")) == "cwd"
        assert narrow(agent, SessionOptions(outside / "in")).cwd == (inside / "deep").resolve()


def test_cwd_must_be_an_existing_absolute_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    wrong = (Path("relative"), Path(), tmp_path / "no", tmp_path / "file", tmp_path / "a\0b")
    for path in wrong:
        assert _invalid(AGENT, SessionOptions(path)) == "options.cwd"
    assert narrow(AGENT, SessionOptions(tmp_path)).cwd == tmp_path.resolve()


@pytest.mark.usefixtures("toolbox")
def test_tools_are_a_part_of_the_agents_own() -> None:
    agent = replace(AGENT, tools=("write", "read"))
    assert narrow(agent, SessionOptions(tools=())).tools == ()
    assert narrow(agent, SessionOptions(tools=("read", "read"))).tools == ("read",)
    assert _refused(agent, SessionOptions(tools=("read", "shell"))) == "tools"
    assert _invalid(agent, SessionOptions(tools=("reed",))) == "options.tools"
    assert narrow(AGENT, SessionOptions(tools=("shell",))).tools == ("shell",)


def test_permissions_only_get_stricter() -> None:
    for own in MODES:
        for wanted in MODES:
            agent = replace(AGENT, permissions=own)
            if MODES.index(wanted) <= MODES.index(own):
                assert narrow(agent, SessionOptions(permissions=wanted)).permissions == wanted
            else:
                assert _refused(agent, SessionOptions(permissions=wanted)) == "permissions"
    unknown = SessionOptions(permissions="root")  # type: ignore[arg-type] # the point of this line
    assert _invalid(AGENT, unknown) == "options.permissions"


@pytest.mark.parametrize(("own", "most"), [(None, 100), (5, 5), (500, 500)])
def test_max_turns_is_at_most_the_agents_own_or_a_hundred(own: int | None, most: int) -> None:
    agent = replace(AGENT, max_turns=own)
    assert narrow(agent, SessionOptions(max_turns=most)).max_turns == most
    assert _refused(agent, SessionOptions(max_turns=most + 1)) == "maxTurns"
    assert _invalid(agent, SessionOptions(max_turns=0)) == "options.maxTurns"


@pytest.mark.parametrize(
    ("own", "wanted", "allowed"),
    [
        (None, "gpt", True),
        ("gpt", "other", True),
        ("gpt", "embedded", True),
        ("gpt", "scripted:a", True),
        ("embedded", "scripted:a", True),
        ("embedded", "gpt", False),
        ("scripted:a", "gpt", False),
    ],
)
def test_another_model_is_allowed_unless_it_would_tell_somebody(
    own: str | None, wanted: str, allowed: bool
) -> None:
    agent = replace(AGENT, model=own)
    if allowed:
        assert narrow(agent, SessionOptions(model=wanted)).model == wanted
    else:
        assert _refused(agent, SessionOptions(model=wanted)) == "model"
    assert _invalid(agent, SessionOptions(model=" ")) == "options.model"


@pytest.mark.usefixtures("toolbox")
@pytest.mark.parametrize(
    ("definition", "names"),
    [
        (AgentDefinition("x"), ["read"]),
        (AgentDefinition("x", permissions="ask"), ["read", "write", "fetch"]),
        (LOCAL, ["read", "write", "shell", "fetch"]),
        (replace(LOCAL, permissions="read_only"), ["read"]),
        (replace(LOCAL, tools=("shell", "read")), ["read", "shell"]),
        (AgentDefinition("x", tools=("write", "read")), ["read"]),
        (AgentDefinition("x", permissions="auto", tools=()), []),
    ],
)
def test_a_model_is_told_only_of_tools_that_can_ever_be_allowed(
    definition: AgentDefinition, names: list[str]
) -> None:
    assert [tool.spec.name for tool in advertised_tools(definition)] == names


def test_a_resume_differs_only_in_what_it_names(tmp_path: Path) -> None:
    opened = SessionOptions(cwd=tmp_path, tools=("read", "glob"), max_turns=3)
    for same in (
        SessionOptions(),
        opened,
        SessionOptions(tools=("glob", "read")),
        SessionOptions(cwd=tmp_path / "."),
    ):
        assert same.difference(opened) is None
    assert SessionOptions(max_turns=4).difference(opened) == ("maxTurns", 3, 4)
    assert SessionOptions(tools=("read",)).difference(opened) == (
        "tools",
        ["glob", "read"],
        ["read"],
    )
    assert SessionOptions(cwd=tmp_path / "x").difference(opened) == (
        "cwd",
        str(tmp_path),
        str(tmp_path / "x"),
    )
    assert SessionOptions(model="m").difference(opened) == ("model", None, "m")


_TOOL_LISTS = st.none() | st.lists(
    st.sampled_from([*TOOLBOX, "unknown"]), max_size=4, unique=True
).map(tuple)
_MODELS = st.none() | st.sampled_from(["gpt", "embedded", "scripted:a"])
_FOLDERS = st.none() | st.sampled_from(
    ["", "a", "a/b", "a/../c", "c", "a/link", "c/link", "no", "file"]
)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[AgentDefinition, str | None, SessionOptions, str | None]:
    agent = AgentDefinition(
        "x",
        permissions=draw(st.sampled_from(MODES)),
        model=draw(_MODELS),
        tools=draw(st.none() | st.lists(st.sampled_from([*TOOLBOX]), unique=True).map(tuple)),
        max_turns=draw(st.none() | st.integers(1, 200)),
    )
    options = SessionOptions(
        model=draw(_MODELS),
        tools=draw(_TOOL_LISTS),
        permissions=draw(st.none() | st.sampled_from(MODES)),
        max_turns=draw(st.none() | st.integers(-1, 200)),
    )
    return agent, draw(_FOLDERS), options, draw(_FOLDERS)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    (root / "a" / "b").mkdir(parents=True)
    (root / "c").mkdir()
    (root / "file").write_text("x")
    if sys.platform != "win32":
        (root / "a" / "link").symlink_to(root / "c")
        (root / "c" / "link").symlink_to(root / "a" / "b")
    return root


@deterministic
@given(case=_cases())
def test_narrowing_never_widens(
    tree: Path, case: tuple[AgentDefinition, str | None, SessionOptions, str | None]
) -> None:
    agent, own_folder, options, wanted_folder = case
    agent = replace(agent, cwd=None if own_folder is None else tree / own_folder)
    options = replace(options, cwd=None if wanted_folder is None else tree / wanted_folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options_module, "BUILTIN", TOOLBOX)
        try:
            narrowed = narrow(agent, options)
        except TreadleError as error:
            assert isinstance(error, WouldWiden | InvalidParams)
            return
        before, after = advertised_tools(agent), advertised_tools(narrowed)
        assert narrow(narrowed, SessionOptions()) == narrowed
    assert all(tool in before for tool in after)
    policy = narrowed.policy
    assert all(policy.verdict(tool.spec.name, tool.capability) != "refuse" for tool in after)
    assert is_stricter_or_equal(narrowed.permissions, than=agent.permissions)
    assert (narrowed.max_turns or 0) <= (agent.max_turns or 100)
    assert not (agent.model and is_local(agent.model)) or is_local(narrowed.model or "")
    if agent.cwd is not None:
        assert narrowed.cwd is not None
        real = os.path.realpath(narrowed.cwd)
        assert os.path.commonpath([real, os.path.realpath(agent.cwd)]) == os.path.realpath(
            agent.cwd
        )
    kept = ("name", "sandbox", "base_url", "api_key_env", "instructions", "source")
    assert [getattr(narrowed, name) for name in kept] == [getattr(agent, name) for name in kept]
