"""The tool `skill`: instructions and files of a skill's own folder, and nothing beyond it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.calls import Caller, in_memory
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.skills import Skill

BODY = "Sort it."


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    """Return a caller whose agent has one skill, with a file beside it."""
    folder = tmp_path / "skills" / "triage"
    (folder / "rules").mkdir(parents=True)
    (folder / "SKILL.md").write_text(BODY)
    (folder / "rules" / "work.md").write_text("Work first.")
    (tmp_path / "secret.txt").write_text("hunter2")
    caller = in_memory()
    caller.session.skills = (Skill("triage", "Sorts mail", BODY, folder),)
    return caller


def _folder(caller: Caller) -> Path:
    return caller.session.skills[0].folder


async def test_the_instructions_come_with_the_names_of_the_files_beside_them(
    caller: Caller,
) -> None:
    assert await caller.told("skill", name="triage") == (
        "Sort it.\n\nFiles of this skill, to be read by `path`:\nrules/work.md"
    )
    assert await caller.told("skill", name="triage", path="rules/work.md") == "Work first."
    assert await caller.told("skill", name="triage", path="rules") == "work.md"


async def test_an_unknown_skill_names_those_that_there_are(caller: Caller) -> None:
    assert await caller.refused("skill", name="triag") == (
        "You have no skill 'triag'. Did you mean triage? Your skills are: triage."
    )
    caller.session.skills = ()
    assert await caller.refused("skill", name="x") == "You have no skill 'x'. You have none."


async def test_a_file_that_is_not_there_names_those_that_are(caller: Caller) -> None:
    assert await caller.refused("skill", name="triage", path="rules/home.md") == (
        "The skill triage has no file rules/home.md.\n\n"
        "Files of this skill, to be read by `path`:\nrules/work.md"
    )


@pytest.mark.parametrize(
    "path",
    [
        "../../secret.txt",
        "rules/../../../secret.txt",
        "out.txt",
        "outside/secret.txt",
        "{root}/secret.txt",
        "{root}/skills/triage/SKILL.md",
        "C:\\secret.txt",
        "~/secret.txt",
        "pipe",
        "a\0b",
        "x" * 5000,
    ],
)
async def test_nothing_is_read_outside_a_skills_folder(
    caller: Caller, tmp_path: Path, path: str
) -> None:
    folder = _folder(caller)
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "outside").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    said = await caller.refused("skill", name="triage", path=path.format(root=tmp_path))
    assert "hunter2" not in said
    assert BODY not in said


async def test_what_is_no_text_is_named_and_what_is_too_long_is_cut(caller: Caller) -> None:
    folder = _folder(caller)
    (folder / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (folder / "long.md").write_text("line\n" * 50_000)
    assert await caller.refused("skill", name="triage", path="logo.png") == (
        "logo.png is no text (PNG image), so it cannot be shown."
    )
    outcome = await caller.call("skill", name="triage", path="long.md")
    assert (outcome.ok, outcome.truncated) == (True, True)
    assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES
