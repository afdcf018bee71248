"""The catalogue: which agents there are now, and what happens while files change."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from treadle.agents import own_folder
from treadle.agents.builtin import ASSISTANT
from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.config import Config, ModelSettings
from treadle.errors import InvalidAgent, UnknownAgent

# Long ago, so that a file counts as settled.
_OLD_NS = 10**18


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config" / "agents").mkdir(parents=True)
    return tmp_path / "config"


def _write(config: Path, name: str, text: str) -> Path:
    path = config / "agents" / name
    path.write_text(text, encoding="utf-8")
    return path


def _names(catalogue: Catalogue) -> list[str]:
    return [agent.name for agent in catalogue.list()[0]]


def test_without_any_file_there_is_the_assistant_and_no_problem(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "nowhere")
    assert catalogue.find("assistant") is ASSISTANT
    assert catalogue.list() == ([ASSISTANT], [])
    assert catalogue.config() == Config()
    assert (ASSISTANT.permissions, ASSISTANT.sandbox, ASSISTANT.cwd) == ("read_only", "local", None)
    assert ASSISTANT.source == "built-in"


def test_a_file_is_an_agent_at_once_and_no_more_when_it_is_gone(config: Path) -> None:
    catalogue = Catalogue(config)
    path = _write(config, "inbox.md", "Sort.")
    assert catalogue.find("inbox").instructions == "Sort."
    assert _names(catalogue) == ["assistant", "inbox"]
    path.unlink()
    with pytest.raises(UnknownAgent):
        catalogue.find("inbox")
    assert _names(catalogue) == ["assistant"]


def test_an_unknown_agent_names_the_nearest_and_where_files_go(config: Path) -> None:
    _write(config, "inbox.md", "")
    with pytest.raises(UnknownAgent) as caught:
        Catalogue(config).find("inbx")
    assert caught.value.message == (
        "there is no agent 'inbx'. Did you mean inbox? "
        f"An agent is a file <name>.md in {config / 'agents'}"
    )


def test_an_unknown_agent_near_to_none_names_those_that_there_are(config: Path) -> None:
    for number in range(30):
        _write(config, f"inbox{number:02}.md", "")
    with pytest.raises(UnknownAgent) as caught:
        Catalogue(config).find("zzz")
    some = ", ".join(f"inbox{number:02}" for number in range(19))
    assert caught.value.message == (
        f"there is no agent 'zzz'. There are: assistant, {some}, …. "
        f"An agent is a file <name>.md in {config / 'agents'}"
    )


def test_a_change_reaches_the_next_look_however_soon_it_comes(config: Path) -> None:
    catalogue = Catalogue(config)
    for number in range(20):
        _write(config, "inbox.md", f"{number:02}")
        assert catalogue.find("inbox").instructions == f"{number:02}"


def test_a_file_that_did_not_change_is_not_read_again(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Path] = []
    honest = own_folder.parse_agent

    def counting(path: Path, *arguments: Any) -> object:
        parsed.append(path)
        return honest(path, *arguments)

    monkeypatch.setattr(own_folder, "parse_agent", counting)
    path = _write(config, "inbox.md", "Sort.")
    os.utime(path, ns=(_OLD_NS, _OLD_NS))
    catalogue = Catalogue(config)
    assert catalogue.find("inbox") is catalogue.find("inbox")
    assert len(parsed) == 1
    os.utime(path, ns=(_OLD_NS, _OLD_NS + 1))
    catalogue.find("inbox")
    assert len(parsed) == 1  # it was touched, and says the same
    path.write_text("Sift.")
    os.utime(path, ns=(_OLD_NS, _OLD_NS))
    assert catalogue.find("inbox").instructions == "Sift."
    assert len(parsed) == 2


def test_a_broken_file_leaves_the_last_good_definition_in_use_and_is_a_problem(
    config: Path,
) -> None:
    catalogue = Catalogue(config)
    path = _write(config, "inbox.md", "Sort.")
    good = catalogue.find("inbox")
    _write(config, "inbox.md", "---\npermissions: everything\n---\n")
    assert catalogue.find("inbox") == good
    agents, problems = catalogue.list()
    assert agents == [ASSISTANT, good]
    assert [problem.path for problem in problems] == [str(path)]
    assert "inbox.md, line 2: permissions must be one of" in problems[0].message
    _write(config, "inbox.md", "Mended.")
    assert catalogue.find("inbox").instructions == "Mended."
    assert catalogue.list()[1] == []


def test_a_file_that_never_was_good_is_an_error_of_its_own(config: Path) -> None:
    path = _write(config, "inbox.md", "---\nno: no\n---\n")
    catalogue = Catalogue(config)
    for _ in range(2):
        with pytest.raises(InvalidAgent) as caught:
            catalogue.find("inbox")
        assert caught.value.data == {"path": str(path)}
    assert _names(catalogue) == ["assistant"]


def test_a_file_overrides_the_assistant_and_a_broken_one_does_not_bring_it_back(
    config: Path,
) -> None:
    catalogue = Catalogue(config)
    path = _write(config, "assistant.md", "---\nno: no\n---\n")
    with pytest.raises(InvalidAgent):
        catalogue.find("assistant")
    assert _names(catalogue) == []
    _write(config, "assistant.md", "Mine.")
    assert catalogue.find("assistant").instructions == "Mine."
    assert _names(catalogue) == ["assistant"]
    path.unlink()
    assert catalogue.find("assistant") is ASSISTANT


def test_hidden_files_and_other_kinds_are_no_agents(config: Path) -> None:
    for name in (".hidden.md", ".md", "notes.txt", "inbox.md~", "inbox.md.swp", "MAIL.MD.bak"):
        _write(config, name, "x")
    (config / "agents" / "sub").mkdir()
    _write(config, "sub/deep.md", "x")
    assert Catalogue(config).list() == ([ASSISTANT], [])


def test_a_name_never_leads_out_of_the_folder(config: Path) -> None:
    (config / "outside.md").write_text("x")
    (config / "agents" / "sub").mkdir()
    _write(config, "sub/deep.md", "x")
    for name in ("../outside", "sub/deep", str(config / "outside"), "", ".", "..", "\0", "\ud800"):
        with pytest.raises(UnknownAgent):
            Catalogue(config).find(name)


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems hold only one of the two")
def test_names_that_differ_only_by_case_are_two_agents(config: Path) -> None:
    _write(config, "inbox.md", "small")
    _write(config, "Inbox.md", "large")
    catalogue = Catalogue(config)
    assert catalogue.find("inbox").instructions == "small"
    assert catalogue.find("Inbox").instructions == "large"
    assert _names(catalogue) == ["Inbox", "assistant", "inbox"]


def test_a_name_is_taken_exactly_as_its_file_spells_it(config: Path) -> None:
    _write(config, "inbox.md", "small")
    with pytest.raises(UnknownAgent, match="Did you mean inbox"):
        Catalogue(config).find("INBOX")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names and files")
def test_odd_files_are_problems_and_nothing_waits_for_them(config: Path) -> None:
    folder = config / "agents"
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    (folder / "dangling.md").symlink_to("nowhere")
    (folder / "line\nend.md").write_text("x")
    (folder / ("x" * 201 + ".md")).write_text("x")
    (folder / os.fsdecode(b"byte\xff.md")).write_text("x")
    agents, problems = Catalogue(config).list()
    assert agents == [ASSISTANT]
    assert [(Path(problem.path).name, problem.message) for problem in problems] == [
        (
            "byte\ufffd.md",
            "the file's name holds U+DCFF; control characters and lone surrogates "
            "cannot stand in a name; rename 'byte\\udcff.md'",
        ),
        ("dangling.md", "dangling.md cannot be read: No such file or directory"),
        ("folder.md", "folder.md cannot be read: it is not a regular file"),
        (
            "line\nend.md",
            "the file's name holds U+000A; control characters and lone surrogates "
            "cannot stand in a name; rename 'line\\nend.md'",
        ),
        ("pipe.md", "pipe.md cannot be read: it is not a regular file"),
        (
            "x" * 201 + ".md",
            "the file's name has 201 characters; at most 200 are possible; rename "
            f"'{'x' * 201}.md'",
        ),
    ]  # fmt: skip - one file, one entry


def test_a_link_to_a_file_elsewhere_is_followed(config: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.md").write_text("Linked.")
    (config / "agents" / "linked.md").symlink_to(tmp_path / "dotfiles.md")
    assert Catalogue(config).find("linked").instructions == "Linked."


def test_an_agents_folder_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("x")
    catalogue = Catalogue(tmp_path)
    agents, problems = catalogue.list()
    assert (agents, [problem.path for problem in problems]) == (
        [ASSISTANT],
        [str(tmp_path / "agents")],
    )
    with pytest.raises(InvalidAgent):
        catalogue.find("inbox")


def test_the_configuration_is_read_again_when_it_changes_and_kept_when_it_breaks(
    config: Path,
) -> None:
    catalogue, path = Catalogue(config), config / "config.toml"
    path.write_text("[models")
    with pytest.raises(InvalidAgent):
        catalogue.config()
    assert catalogue.find("assistant") is ASSISTANT
    assert [problem.path for problem in catalogue.list()[1]] == [str(path)]
    path.write_text("[models]\nmodel = 'm'")
    assert catalogue.config() == Config(ModelSettings("m"))
    path.write_text("[models")
    assert catalogue.config() == Config(ModelSettings("m"))
    assert len(catalogue.list()[1]) == 1
    path.unlink()
    assert (catalogue.config(), catalogue.list()[1]) == (Config(), [])


def test_what_the_configuration_says_in_vain_is_a_problem(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "1234567")
    (config / "config.toml").write_text("[secrets]\nnames = ['SHORT']")
    assert Catalogue(config).list()[1] == [
        AgentProblem(
            str(config / "config.toml"),
            "[secrets] SHORT has a value of fewer than 8 characters, which may be part of any "
            "text, so it is not hidden; take a longer one",
        )
    ]


def test_threads_may_look_at_the_same_time_as_files_change(config: Path) -> None:
    catalogue = Catalogue(config)
    _write(config, "inbox.md", "0")
    failures: list[BaseException] = []

    def look() -> None:
        try:
            for _ in range(50):
                catalogue.find("inbox")
                catalogue.list()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(50):
        _write(config, "inbox.md", str(number))
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert catalogue.find("inbox").instructions == "49"
