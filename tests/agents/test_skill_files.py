"""Skills in a config folder: what they may be, and that a broken one is a problem alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.skills import DESCRIPTION_CHARACTERS, MOST_SKILLS
from treadle.tools.skills import Skill

GOOD = "---\nname: triage\ndescription: Sorts mail\n---\nSort it.\n"


def _write(config: Path, text: str | bytes, name: str = "triage") -> Path:
    path = config / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _agent(config: Path, skills: str, name: str = "inbox") -> Path:
    path = config / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\ndescription: Mail\nskills: {skills}\n---\nYou sort mail.\n")
    return path


def test_a_skill_is_what_its_file_says_and_an_agent_has_those_that_it_names(
    tmp_path: Path,
) -> None:
    path = _write(
        tmp_path,
        "---\nname: triage\nlicense: MIT\ndescription: |\n  Sorts\n  mail\nmetadata: {a: b}\n"
        "allowed-tools: shell write\n---\n\n# How\n\nSort it.\n",
    )
    _agent(tmp_path, "[triage]")
    catalogue = Catalogue(tmp_path)
    agents, problems = catalogue.list()
    assert problems == []
    assert [agent.skills for agent in agents] == [(), ("triage",)]
    assert catalogue.skills(("triage",)) == (
        Skill("triage", "Sorts\nmail", "# How\n\nSort it.", path.parent),
    )


def test_a_skill_that_is_not_there_is_a_problem_and_the_agent_goes_on_without_it(
    tmp_path: Path,
) -> None:
    _write(tmp_path, GOOD)
    path = _agent(tmp_path, "[triagee, triage]")
    catalogue = Catalogue(tmp_path)
    agents, problems = catalogue.list()
    assert [agent.name for agent in agents] == ["assistant", "inbox"]
    assert problems == [
        AgentProblem(
            str(path),
            "inbox.md, line 3: skills names triagee, which is not there, so the agent goes on "
            "without it. Did you mean triage? There are: triage",
        )
    ]
    assert [one.name for one in catalogue.skills(agents[1].skills)] == ["triage"]


@pytest.mark.parametrize(
    ("skills", "problem"),
    [
        ("triage", "skills must be a list such as [triage]"),
        ("[../agents]", "skills holds '../agents', which is no name of a skill"),
        ("[a/b]", "skills holds 'a/b', which is no name of a skill"),
        ("[Triage]", "skills holds 'Triage', which is no name of a skill"),
        ("[a--b]", "skills holds 'a--b', which is no name of a skill"),
        ("[1]", "skills holds 1, which is no name of a skill"),
        (f"[{'a' * 65}]", "skills holds 'aaa"),
        ("[a, b, a]", "skills names a twice"),
        (f"[{', '.join(f's{n}' for n in range(MOST_SKILLS + 1))}]", "skills may hold at most 64"),
    ],
)
def test_names_that_no_skill_can_have_are_refused_with_their_line(
    tmp_path: Path, skills: str, problem: str
) -> None:
    _agent(tmp_path, skills)
    (found,) = Catalogue(tmp_path).list()[1]
    assert found.message.startswith(f"inbox.md, line 3: {problem}"), found.message


LONG = "x" * (DESCRIPTION_CHARACTERS + 1)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("Sort it.", "line 1: it must begin with a line `---` and say `name: …` before the next"),
        ("---\nname: triage\n---\n", "begin with a line `---` and say `description: …` before"),
        ("---\nname: other\ndescription: a\n---\n", "line 2: name must be triage, as the folder"),
        ("---\nname: triage\ndescription: 7\n---\n", "line 3: description must be text, not 7"),
        ("---\nname: triage\ndescription: ''\n---\n", "line 3: description must have 1 to 1024"),
        (f"---\nname: triage\ndescription: {LONG}\n---\n", "line 3: description must have 1 to"),
        ("---\nname: [\n---\n", "line 3: this is no YAML"),
        ("---\nname: triage\n", "line 1: the front matter that begins here has no closing line"),
        ("---\na: &a [1]\nb: *a\n---\n", "line 3: the alias *a is not supported"),
        (f"---\na: {'[' * 5000}\n---\n", "this is no YAML"),
        (b"---\nname: triage\ndescription: \xff\n---\n", "line 3: the file is not UTF-8"),
        (b"---\nname: triage\n\0---\n", "line 3: the file holds a NUL"),
        (b"x" * 300_000, ": the file is larger than 256 KiB"),
        (b"", "line 1: it must begin with a line `---`"),
    ],
)
def test_a_file_that_is_no_skill_is_a_problem_and_never_a_crash(
    tmp_path: Path, data: str | bytes, problem: str
) -> None:
    path = _write(tmp_path, data)
    _agent(tmp_path, "[triage]")
    catalogue = Catalogue(tmp_path)
    agents, (found,) = catalogue.list()
    assert [agent.name for agent in agents] == ["assistant", "inbox"]
    assert found.path == str(path)
    assert found.message.startswith("skills/triage/SKILL.md")
    assert problem in found.message or "nested too deeply" in found.message, found.message
    assert catalogue.skills(("triage",)) == ()


def test_what_is_no_file_of_the_folder_is_a_problem(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(GOOD.replace("triage", "linked"))
    skills = tmp_path / "skills"
    for name in ("pipe", "folder", "empty", "linked", "dangling", "Strange Name", ".hidden"):
        (skills / name).mkdir(parents=True)
    os.mkfifo(skills / "pipe" / "SKILL.md")
    (skills / "folder" / "SKILL.md").mkdir()
    (skills / "linked" / "SKILL.md").symlink_to(outside)
    (skills / "dangling" / "SKILL.md").symlink_to(tmp_path / "nowhere")
    (skills / "README.md").write_text("No skill.")
    catalogue = Catalogue(tmp_path)
    problems = {Path(one.path).parent.name: one.message for one in catalogue.list()[1]}
    assert problems == {
        "dangling": "skills/dangling/SKILL.md cannot be read: No such file or directory",
        "empty": "skills/empty/SKILL.md cannot be read: No such file or directory",
        "folder": "skills/folder/SKILL.md cannot be read: it is not a regular file",
        "linked": "skills/linked/SKILL.md: it leads out of the skill's folder",
        "pipe": "skills/pipe/SKILL.md cannot be read: it is not a regular file",
        "skills": "'Strange Name' cannot be the name of a skill; it is 1 to 64 of a-z, 0-9 and "
        "single hyphens between them, as its folder is called",
    }
    assert catalogue.skills(("pipe", "folder", "empty", "linked", "dangling")) == ()


def test_a_skill_that_breaks_keeps_its_last_good_meaning_and_one_that_is_gone_is_gone(
    tmp_path: Path,
) -> None:
    path = _write(tmp_path, GOOD)
    catalogue = Catalogue(tmp_path)
    assert [one.body for one in catalogue.skills(("triage",))] == ["Sort it."]
    path.write_text("---\nname: [")
    assert [one.body for one in catalogue.skills(("triage",))] == ["Sort it."]
    assert len(catalogue.list()[1]) == 1
    path.write_text(GOOD.replace("Sort it.", "Sort it well."))
    assert [one.body for one in catalogue.skills(("triage",))] == ["Sort it well."]
    path.unlink()
    assert catalogue.skills(("triage",)) == ()
