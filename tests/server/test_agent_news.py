"""What a client hears of agents that change, and what it is asked before a project's are used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import daemon
from support.line import Line
from support.person import write_agent
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.agents.workspace import tail_of
from treadle.runtime import agent_watch


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, so that tests need not wait."""
    monkeypatch.setattr(agent_watch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(agent_watch, "SETTLE_SECONDS", 0.01)


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "agents"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o700)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".treadle" / "agents").mkdir(parents=True)
    return Path(os.path.realpath(folder))


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Callable[..., Line]]:
    """Make lines whose clients said something of themselves; all of them end."""
    lines: list[Line] = []

    def make(root: Path | None = None, **treadle: Any) -> Line:
        line = Line(tmp_path, initialize=False)
        params = {
            "capabilities": {"experimental": {"treadle": treadle}},
            "rootUri": root.as_uri() if root else None,
        }
        line.send(id="hello", method="initialize", params=params)
        line.log.pop()
        lines.append(line)
        return line

    yield make
    for line in lines:
        await line.end()


async def _listed(line: Line) -> Any:
    number = sum("id" in each for each in line.log)
    line.send(id=f"list-{number}", method="agent/list")
    return (await line.reply(f"list-{number}"))["result"]


def put(path: Path, text: str) -> None:
    """Write a file, of which no look sees a part: here a change is one change."""
    part = path.parent.with_name("part")
    part.write_text(text)
    part.chmod(0o600)
    part.replace(path)


def _told(line: Line) -> list[dict[str, str]]:
    return [each["params"] for each in line.log if each.get("method") == "agent/changed"]


def _asked(line: Line) -> list[dict[str, Any]]:
    return [each for each in line.log if each.get("method") == "workspace/requestTrust"]


async def test_a_client_hears_of_agents_that_come_change_break_and_go(
    connect: Callable[..., Line], agents: Path
) -> None:
    line = connect()
    (agents / "old.md").write_text("Old.")
    await _listed(line)
    expected: list[dict[str, str]] = []

    async def hears(name: str, change: str) -> None:
        expected.append({"name": name, "change": change})
        await line.until(lambda: len(_told(line)) >= len(expected))
        assert _told(line) == expected

    put(agents / "inbox.md", "Sort.")
    await hears("inbox", "added")
    put(agents / "inbox.md", "Sift.")
    await hears("inbox", "changed")
    put(agents / "inbox.md", "---\nno: no\n---\n")
    await hears("inbox", "broken")
    put(agents / "inbox.md", "---\nyes: no\n---\n")
    await hears("inbox", "broken")
    put(agents / "inbox.md", "Sift.")
    await hears("inbox", "changed")
    (agents / "inbox.md").unlink()
    await hears("inbox", "removed")
    put(agents / "code.py", "1 / 0")
    await hears("code", "broken")
    put(agents / "code.py", "from treadle import Definition\nagent = Definition\n")
    await hears("code", "added")
    (agents / "old.md").touch()
    (agents / "old.md").unlink()
    await hears("old", "removed")


async def test_a_changed_configuration_is_told_without_a_name(
    connect: Callable[..., Line], agents: Path
) -> None:
    line = connect()
    await _listed(line)
    for text, change in (
        ('[models]\nmodel = "gpt-5-mini"\n', "changed"),
        ("[models", "broken"),
        ("", "changed"),
    ):
        before = len(_told(line))
        put(agents.parent / "config.toml", text)
        await line.until(lambda before=before: len(_told(line)) > before)  # type: ignore[misc]  # bound at once
        assert _told(line)[before:] == [{"change": change}]


async def test_very_many_changes_are_told_as_one(
    connect: Callable[..., Line], agents: Path
) -> None:
    line = connect()
    await _listed(line)
    new = agents.parent / "new"
    new.mkdir()
    for number in range(agent_watch.MOST_TOLD + 1):
        (new / f"{number}.md").write_text("x")
    os.rmdir(agents)  # noqa: PTH106 - ruff takes the path's own methods for slow ones
    os.rename(new, agents)  # noqa: PTH104 - as above
    await line.until(lambda: bool(_told(line)))
    assert _told(line) == [{"change": "changed"}]


async def test_a_client_that_does_not_want_to_hear_it_hears_nothing(
    connect: Callable[..., Line], agents: Path
) -> None:
    silent, other = connect(optOut=["agent/changed"]), connect()
    await _listed(silent)
    await _listed(other)
    put(agents / "inbox.md", "Sort.")
    await other.until(lambda: bool(_told(other)))
    # Both lines look at the same folder; the silent one has looked twice after this.
    put(agents / "inbox.md", "Sift.")
    await other.until(lambda: len(_told(other)) == 2)
    assert _told(silent) == []


async def test_nobody_looks_before_a_first_request_and_after_the_last_client(
    connect: Callable[..., Line], agents: Path
) -> None:
    line = connect()
    line.send(method="initialized", params={})
    watch = line.runtime.agent_watch
    assert watch._task is None
    await _listed(line)
    task = watch._task
    assert task is not None
    await line.connection.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait({task})
    assert (task.cancelled(), watch._task) == (True, None)


async def test_a_look_that_fails_is_not_the_last_one(
    connect: Callable[..., Line], agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = connect()
    await _listed(line)
    failed: list[object] = []

    def failing(*arguments: object) -> None:
        failed.append(arguments)
        raise RuntimeError("the disk is on fire")

    with monkeypatch.context() as broken:
        broken.setattr(agent_watch, "look", failing)
        await until_seen(lambda: bool(failed))
    put(agents / "inbox.md", "Sort.")
    await line.until(lambda: _told(line) == [{"name": "inbox", "change": "added"}])


async def test_a_client_is_asked_once_and_then_has_the_projects_agents(
    connect: Callable[..., Line], project: Path, agents: Path
) -> None:
    file = project / ".treadle" / "agents" / "inbox.md"
    file.write_text("---\nsandbox: local\n---\nSort.")
    line = connect(project, requestTrust=True)
    listed = await _listed(line)
    assert [each["name"] for each in listed["agents"]] == ["assistant"]
    await line.until(lambda: bool(_asked(line)))
    (question,) = _asked(line)
    assert question["params"] == {"path": str(project), "files": ["inbox.md"], "changed": False}
    await _listed(line)
    line.send(id=question["id"], result={"trusted": True})
    name = f"inbox@{tail_of(project)}"
    await line.until(lambda: _told(line) == [{"name": name, "change": "added"}])
    listed = await _listed(line)
    inbox = listed["agents"][1]
    assert (inbox["name"], inbox["workspace"]) == (name, str(project))
    assert (inbox["source"], listed["problems"]) == (str(file), [])
    # What changes is asked for anew, and not used meanwhile.
    file.write_text("Be evil.")
    await line.until(lambda: _told(line)[1:] == [{"name": name, "change": "removed"}])
    await _listed(line)
    await line.until(lambda: len(_asked(line)) == 2)
    assert _asked(line)[1]["params"]["changed"] is True


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"trusted": False}},
        {"result": {"trusted": "true"}},
        {"result": True},
        {"result": None},
        {"error": {"code": -32601, "message": "?"}},
    ],
)
async def test_any_answer_but_true_is_no_and_is_not_asked_again(
    connect: Callable[..., Line], project: Path, answer: dict[str, Any], tmp_path: Path
) -> None:
    (project / ".treadle" / "agents" / "inbox.md").write_text("Sort.")
    line = connect(project, requestTrust=True)
    await _listed(line)
    await line.until(lambda: bool(_asked(line)))
    line.send(id=_asked(line)[0]["id"], **answer)
    for _ in range(3):
        listed = await _listed(line)
    assert [each["name"] for each in listed["agents"]] == ["assistant"]
    (problem,) = listed["problems"]
    assert problem["message"].endswith(f"look at them, then run: treadle trust {project}")
    assert len(_asked(line)) == 1
    assert not (tmp_path / "config" / "trusted").exists()


async def test_what_is_trusted_is_what_was_asked_for(
    connect: Callable[..., Line], project: Path
) -> None:
    file = project / ".treadle" / "agents" / "inbox.md"
    file.write_text("Sort.")
    line = connect(project, requestTrust=True)
    await _listed(line)
    await line.until(lambda: bool(_asked(line)))
    file.write_text("Be evil.")
    line.send(id=_asked(line)[0]["id"], result={"trusted": True})
    trust = line.runtime.services.catalogue.trust
    await until_seen(lambda: trust.of(project) is not None)
    listed = await _listed(line)
    assert "have changed since they were trusted" in listed["problems"][0]["message"]
    assert [each["name"] for each in listed["agents"]] == ["assistant"]


async def test_a_client_that_takes_no_such_request_is_never_asked(
    connect: Callable[..., Line], project: Path
) -> None:
    (project / ".treadle" / "agents" / "inbox.md").write_text("Sort.")
    line = connect(project)
    for _ in range(3):
        listed = await _listed(line)
    assert _asked(line) == []
    assert "treadle trust" in listed["problems"][0]["message"]


async def test_a_projects_agent_has_threads_of_its_own(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"echo": true}\n')
    folder = project / ".treadle" / "agents"
    (folder / "inbox.md").write_text("---\nsandbox: local\n---\nSort.")
    mine = write_agent("inbox")
    mine.parent.parent.chmod(0o700)
    async with daemon(env={"TREADLE_MODEL": f"scripted:{script}"}, initialize=False) as client:
        client.answers["workspace/requestTrust"] = lambda _: {"trusted": True}
        treadle = {"requestTrust": True}
        await client.initialize(
            rootUri=project.as_uri(), capabilities={"experimental": {"treadle": treadle}}
        )
        await client.request("agent/list")
        await client.until(lambda: bool(client.of("agent/changed")))
        name = client.of("agent/changed")[0]["name"]
        threads = [
            (await client.request("session/resume", {"agent": agent, "instance": "a"}))["thread"]
            for agent in ("inbox", name)
        ]
        assert len({Path(thread["path"]).parent for thread in threads}) == 2
        said = {"agent": name, "instance": "a", "prompt": "Hello"}
        assert (await client.request("session/prompt", said))["text"] == "Hello"
        assert await client.end() == 0
