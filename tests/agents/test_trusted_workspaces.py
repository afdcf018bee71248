"""Agents of a project: none without trust, and trust is given to what was there."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from support.process import posix_only
from treadle.agents.builtin import ASSISTANT
from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.trust import TRUST_FOLDER, Trust
from treadle.agents.workspace import read_workspace, tail_of
from treadle.errors import ConfigurationError, InvalidAgent, UnknownAgent


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir(0o700)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    (folder / ".treadle" / "agents").mkdir(parents=True)
    return Path(os.path.realpath(folder))


def _write(project: Path, name: str, text: str) -> Path:
    path = project / ".treadle" / "agents" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _trust(config: Path, project: Path) -> None:
    workspace = read_workspace(project)
    assert workspace is not None
    Trust(config).give(workspace.folder, workspace.digest)


def _name(project: Path, stem: str = "inbox") -> str:
    return f"{stem}@{tail_of(project)}"


def test_a_projects_agents_are_known_by_name_and_workspace(config: Path, project: Path) -> None:
    path = _write(project, "inbox.md", "---\nsandbox: local\n---\nSort.\n")
    _trust(config, project)
    catalogue = Catalogue(config)
    (_, inbox), problems = catalogue.list([project])
    assert re.fullmatch(r"inbox@my-project-[0-9a-f]{12}", inbox.name)
    assert (inbox.instructions, inbox.source) == ("Sort.", str(path))
    assert (inbox.workspace, inbox.cwd, problems) == (project, project, [])
    # Found from anywhere, and listed only where its project is open.
    assert Catalogue(config).find(inbox.name) == inbox
    assert catalogue.list() == ([ASSISTANT], [])


def test_without_trust_there_is_a_problem_that_names_the_command(
    config: Path, project: Path
) -> None:
    path = _write(project, "inbox.py", "raise SystemExit('must never run')")
    catalogue = Catalogue(config)
    command = f"treadle trust '{project}'"
    why = f"the agents of {project} are not trusted; look at them, then run: {command}"
    assert catalogue.list([project]) == (
        [ASSISTANT],
        [AgentProblem(str(path.parent), why, command)],
    )
    with pytest.raises(UnknownAgent) as caught:
        catalogue.find(_name(project))
    assert caught.value.message == f"there is no agent {_name(project)!r}: {why}"
    (workspace,) = catalogue.untrusted([project])
    assert (workspace.folder, workspace.agent_files) == (project, {"inbox": "inbox.py"})


def test_the_short_name_of_a_projects_agent_tells_how_to_have_it(
    config: Path, project: Path
) -> None:
    _write(project, "helper.md", "Help.")
    catalogue = Catalogue(config)

    def said(name: str) -> str:
        with pytest.raises(UnknownAgent) as caught:
            catalogue.find(name, [project])
        return caught.value.message

    why = f"the agents of {project} are not trusted; look at them"
    untrusted = f"there is no agent 'helper': {why}, then run: treadle trust '{project}'"
    assert said("helper") == untrusted
    assert said("other").startswith("there is no agent 'other'. There are: assistant. An agent")
    _trust(config, project)
    whole = _name(project, "helper")
    assert said("helper") == f"there is no agent 'helper'; that of {project} is called {whole}"
    assert f"There are: assistant, {whole}. An agent is" in said("other")


@pytest.mark.parametrize("change", ["edit", "add", "included", "remove"])
def test_any_change_of_the_files_asks_again(config: Path, project: Path, change: str) -> None:
    path = _write(project, "inbox.md", "Sort.\n@include shared/tone.md")
    tone = _write(project, "shared/tone.md", "Be kind.")
    _write(project, "other.md", "Other.")
    _trust(config, project)
    catalogue = Catalogue(config)
    assert catalogue.find(_name(project)).instructions == "Sort.\nBe kind."
    if change == "edit":
        path.write_text("---\npermissions: auto\n---\n")
    elif change == "add":
        _write(project, "evil.py", "raise SystemExit('must never run')")
    elif change == "included":
        tone.write_text("Be evil.")
    else:
        (project / ".treadle" / "agents" / "other.md").unlink()
    with pytest.raises(UnknownAgent, match="have changed since they were trusted; look at them"):
        catalogue.find(_name(project))
    agents, problems = catalogue.list([project])
    assert agents == [ASSISTANT]
    assert ["treadle trust" in each.how for each in problems] == [True]
    _trust(config, project)
    assert len(catalogue.list([project])[0]) == {"add": 3, "remove": 2}.get(change, 3)


def test_what_is_trusted_is_what_was_read_and_not_what_lies_there_later(
    config: Path, project: Path
) -> None:
    path = _write(project, "inbox.md", "Sort.")
    workspace = read_workspace(project)
    assert workspace is not None
    path.write_text("Be evil.")
    Trust(config).give(workspace.folder, workspace.digest)
    with pytest.raises(UnknownAgent, match="have changed"):
        Catalogue(config).find(_name(project))


def test_a_projects_agent_never_goes_before_the_persons(config: Path, project: Path) -> None:
    for stem in ("assistant", "inbox"):
        _write(project, f"{stem}.md", "The project's.")
    (config / "agents").mkdir()
    (config / "agents" / "inbox.md").write_text("Mine.")
    mine = config / "agents" / f"{_name(project)}.md"
    mine.write_text("Mine too.")
    _trust(config, project)
    catalogue = Catalogue(config)
    assert catalogue.find("assistant") is ASSISTANT
    assert catalogue.find("inbox").instructions == "Mine."
    assert catalogue.find(_name(project)).instructions == "Mine too."
    assert catalogue.find(_name(project, "assistant")).instructions == "The project's."
    listed = {agent.name: agent.instructions for agent in catalogue.list([project])[0]}
    assert listed[_name(project)] == "Mine too."
    mine.unlink()
    assert catalogue.find(_name(project)).instructions == "The project's."


def test_its_folder_is_the_workspace_or_one_below(config: Path, project: Path) -> None:
    (project / "src").mkdir()
    (project / "out").symlink_to(config)
    for name, cwd in (("below", "src"), ("up", ".."), ("link", "out"), ("abs", config)):
        _write(project, f"{name}.md", f"---\ncwd: {cwd}\n---\n")
    _write(project, "virtual.md", "Nowhere.")
    _trust(config, project)
    catalogue = Catalogue(config)
    agents, problems = catalogue.list([project])
    assert {each.name.partition("@")[0]: each.cwd for each in agents} == {
        "assistant": None,
        "below": project / "src",
        "virtual": None,
    }
    assert sorted(each.message for each in problems) == [
        f"{name}.md: cwd {cwd} lies outside its workspace {project}"
        for name, cwd in (("abs", config), ("link", project / "out"), ("up", project / ".."))
    ]
    # A folder that becomes a link after it was trusted leads nowhere else.
    (project / "src").rmdir()
    (project / "src").symlink_to(config)
    with pytest.raises(InvalidAgent, match="lies outside its workspace"):
        catalogue.find(_name(project, "below"))


def test_a_projects_python_agent_runs_once_it_is_trusted(config: Path, project: Path) -> None:
    _write(project, "coder.py", "from treadle import Definition\nagent = Definition\n")
    _write(project, "broken.py", "\n1 / 0\n")
    _trust(config, project)
    catalogue = Catalogue(config)
    assert catalogue.find(_name(project, "coder")).workspace == project
    said = "broken.py, line 2: ZeroDivisionError: division by zero"
    with pytest.raises(InvalidAgent, match=said):
        catalogue.find(_name(project, "broken"))
    assert [each.message for each in catalogue.list([project])[1]] == [said]


def test_nothing_is_read_that_lies_outside_the_project(
    config: Path, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    (project / ".treadle" / "agents" / "link.md").symlink_to(outside)
    _write(project, "inbox.md", f"@include {outside}")
    _write(project, "other.md", "@include link.md")
    _trust(config, project)
    agents, problems = Catalogue(config).list([project])
    assert agents == [ASSISTANT]
    folder = project / ".treadle" / "agents"
    assert sorted(each.message for each in problems) == [
        f"inbox.md, line 1: @include {outside}: the file must lie inside {folder}",
        f"other.md, line 1: @include link.md: there is no file {folder / 'link.md'}, "
        "links not counted",
    ]


def test_a_folder_of_agents_that_leads_elsewhere_is_not_read(tmp_path: Path, config: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "inbox.md").write_text("Sort.")
    project = tmp_path / "project"
    (project / ".treadle").mkdir(parents=True)
    (project / ".treadle" / "agents").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidAgent, match="leads out of its workspace"):
        read_workspace(project)
    assert "leads out" in Catalogue(config).list([project])[1][0].message
    assert Catalogue(config).untrusted([project]) == []


def test_a_project_that_holds_too_much_is_a_problem(project: Path) -> None:
    for number in range(101):
        _write(project, f"{number}.md", "x")
    with pytest.raises(InvalidAgent, match="holds more than 100 files or 1024 KiB"):
        read_workspace(project)


@pytest.mark.parametrize("names", [[], ["notes.txt"], [".hidden.md"], ["shared/tone.md"]])
def test_a_project_without_agents_is_none(project: Path, names: list[str]) -> None:
    for name in names:
        _write(project, name, "x")
    assert read_workspace(project) is None
    assert read_workspace(project / "nowhere") is None


def test_two_projects_of_one_name_have_different_agents(tmp_path: Path) -> None:
    assert tail_of(tmp_path / "a" / "site") != tail_of(tmp_path / "b" / "site")
    assert tail_of(Path("/")).startswith("root-")


def test_trust_is_kept_privately_listed_and_taken_back(config: Path, project: Path) -> None:
    trust = Trust(config / "not" / "there")
    assert (trust.list(), trust.of(project), trust.take_back(project)) == ([], None, False)
    trust.give(project, "d1")
    trust.give(project, "d2")
    assert (trust.holds(project, "d1"), trust.holds(project, "d2")) == (False, True)
    (grant,) = trust.list()
    assert (grant.path, grant.digest) == (str(project), "d2")
    (file,) = (config / "not" / "there" / TRUST_FOLDER).iterdir()
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert trust.take_back(project)
    assert trust.list() == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"path": 1}', "[" * 100_000, '{"path":1,"digest":2,"at":3}']
)
def test_a_broken_grant_grants_nothing(config: Path, project: Path, text: str) -> None:
    trust = Trust(config)
    trust.give(project, "digest")
    (file,) = (config / TRUST_FOLDER).iterdir()
    file.write_text(text)
    assert (trust.list(), trust.holds(project, "digest")) == ([], False)


def test_a_grant_that_was_copied_to_another_name_grants_nothing(
    config: Path, project: Path
) -> None:
    trust = Trust(config)
    trust.give(project, "digest")
    (file,) = (config / TRUST_FOLDER).iterdir()
    grant = json.loads(file.read_text())
    file.write_text(json.dumps({**grant, "path": str(config)}))
    assert (trust.list(), trust.of(project), trust.of(config)) == ([], None, None)


@posix_only
def test_a_grant_that_others_could_have_written_grants_nothing(config: Path, project: Path) -> None:
    trust = Trust(config)
    trust.give(project, "digest")
    (config / TRUST_FOLDER).chmod(0o777)
    assert not trust.holds(project, "digest")
    with pytest.raises(ConfigurationError, match=r"trust cannot be kept safe: other users can"):
        trust.give(project, "digest")
    (config / TRUST_FOLDER).chmod(0o700)
    assert not trust.holds(project, "digest")
