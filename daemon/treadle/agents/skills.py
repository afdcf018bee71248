"""The skills in a config folder: `skills/<name>/SKILL.md`, by the public Agent Skills convention.

Front matter says `name`, as the folder is called, and `description`; below it stand instructions,
and beside it whatever files they speak of. Other keys of the convention mean nothing here: a skill
allows nothing. Owns what such a file may be, and that one that cannot be used is a problem and
never a crash. Every method blocks on the disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from treadle.agents.cached_file import CachedFile, ReadFile
from treadle.agents.checks import FILE_LIMIT_BYTES, text
from treadle.agents.definition import AgentDefinition
from treadle.agents.front_matter import (
    FrontMatterError,
    decode,
    read_entries,
    split,
    without_last_line_end,
)
from treadle.errors import InvalidAgent
from treadle.sandbox.paths import is_within
from treadle.tools.nearest import did_you_mean
from treadle.tools.skill import SKILL_FILE
from treadle.tools.skills import Skill

SKILLS_FOLDER = "skills"

# The convention's own bounds.
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1024

# Every description is sent with every model call.
MOST_SKILLS = 64

# More names than these help nobody to find the one that was meant.
_NAMED = 20

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def skill_names(value: Any) -> tuple[str, ...]:
    """Take a list of distinct names of skills.

    Raises:
        ValueError: it is something else; the text ends the sentence `skills …`.
    """
    if not isinstance(value, list):
        raise ValueError("must be a list such as [triage]: folders in the config folder's skills/")
    for number, name in enumerate(value):
        if not is_skill_name(name):
            raise ValueError(f"holds {name!r:.60}, which is no name of a skill; {_RULE}")
        if name in value[:number]:
            raise ValueError(f"names {name} twice")
    if len(value) > MOST_SKILLS:
        raise ValueError(f"may hold at most {MOST_SKILLS} names, not {len(value)}")
    return tuple(value)


def is_skill_name(name: Any) -> bool:
    """Whether something can be the name of a skill, and thereby of a folder on any system."""
    return isinstance(name, str) and len(name) <= NAME_CHARACTERS and bool(_NAME.fullmatch(name))


class SkillFolder:
    """The skills of a config folder, which need not exist.

    Args:
        config: the config folder.
    """

    def __init__(self, config: Path) -> None:
        self.path = config / SKILLS_FOLDER
        self._files: dict[str, CachedFile[Skill]] = {}

    def find(self, names: Sequence[str]) -> tuple[Skill, ...]:
        """Return those of these skills that can be used, as they are now or last were."""
        skills = (self._read(name)[0] for name in names)
        return tuple(skill for skill in skills if skill is not None)

    def problems(self, agents: Iterable[AgentDefinition]) -> list[InvalidAgent]:
        """Tell which skills cannot be used as they stand, and which agents name one that is not.

        Args:
            agents: all of them.
        """
        there, found = self._names()
        for name in there:
            _, error = self._read(name)
            found += [error] if error else ()
        for agent in agents:
            gone = [name for name in agent.skills if name not in there]
            found += [_missing(agent, name, self.path, there) for name in gone]
        return found

    def _read(self, name: str) -> tuple[Skill | None, InvalidAgent | None]:
        if name not in self._files:
            self._files[name] = CachedFile(self.path / name / SKILL_FILE, _parse)
        skill, error = self._files[name].read()
        if error is None:
            return skill, None
        if not (self.path / name / SKILL_FILE).exists():
            del self._files[name]
        # Told apart by the folder: every such file is called the same.
        return skill, InvalidAgent(f"{SKILLS_FOLDER}/{name}/{error.message}", **error.data)

    def _names(self) -> tuple[list[str], list[InvalidAgent]]:
        """Return the names of the skills' folders, sorted, and what is wrong with others."""
        try:
            entries = sorted(os.listdir(self.path))  # noqa: PTH208 - names are wanted, not paths
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        except OSError as error:
            why = error.strerror or str(error)
            problem = InvalidAgent(f"{SKILLS_FOLDER} cannot be listed: {why}", path=str(self.path))
            return [], [problem]
        folders = [one for one in entries if one[0] != "." and (self.path / one).is_dir()]
        why = "{!r} cannot be the name of a skill; " + _RULE
        wrong = [
            InvalidAgent(why.format(one), path=str(self.path / one))
            for one in folders
            if not is_skill_name(one)
        ]
        return [one for one in folders if is_skill_name(one)], wrong


_RULE = (
    f"it is 1 to {NAME_CHARACTERS} of a-z, 0-9 and single hyphens between them, as its folder is "
    "called"
)


def _parse(path: Path, data: bytes, read: ReadFile) -> Skill:
    """Read a skill's file.

    Raises:
        InvalidAgent: it cannot be used; the message names the line and what is valid.
    """
    if not is_within(Path(os.path.realpath(path)), Path(os.path.realpath(path.parent))):
        raise InvalidAgent(f"{path.name}: it leads out of the skill's folder", path=str(path))
    try:
        front_matter, body = split(decode(data))
        description = _description(front_matter, path.parent.name)
    except FrontMatterError as error:
        where = path.name if error.line is None else f"{path.name}, line {error.line}"
        raise InvalidAgent(f"{where}: {error.message}", path=str(path)) from error
    return Skill(path.parent.name, description, without_last_line_end(body).strip(), path.parent)


def _description(front_matter: str, folder: str) -> str:
    """Return the description that a skill's front matter gives.

    Raises:
        FrontMatterError: that, or the name, is missing or wrong.
    """
    entries = {entry.key: entry for entry in read_entries(front_matter)}
    for key in ("name", "description"):
        if key not in entries:
            raise FrontMatterError(
                f"it must begin with a line `---` and say `{key}: …` before the next `---`", 1
            )
    name, described = entries["name"], entries["description"]
    if name.value != folder:
        raise FrontMatterError(f"name must be {folder}, as the folder is called", name.line)
    try:
        said = text(described.value).strip()
    except ValueError as error:
        raise FrontMatterError(f"description {error}", described.line) from error
    if not 1 <= len(said) <= DESCRIPTION_CHARACTERS:
        raise FrontMatterError(
            f"description must have 1 to {DESCRIPTION_CHARACTERS} characters, not {len(said)}",
            described.line,
        )
    return said


def _missing(agent: AgentDefinition, name: str, folder: Path, there: Sequence[str]) -> InvalidAgent:
    """Say that an agent names a skill that is not there; it goes on without it."""
    path = Path(agent.source)
    line = _line_of_skills(path)
    where = path.name if line is None else f"{path.name}, line {line}"
    named = ", ".join(there[:_NAMED])
    there_are = f"There are: {named}" if there else f"There are none in {folder}"
    return InvalidAgent(
        f"{where}: skills names {name}, which is not there, so the agent goes on without it."
        f"{did_you_mean(name, there)} {there_are}",
        path=agent.source,
    )


def _line_of_skills(path: Path) -> int | None:
    """Return the number of the line in which an agent's file names its skills."""
    try:
        with path.open("rb") as file:
            lines = file.read(FILE_LIMIT_BYTES).split(b"\n")
    except OSError:
        return None
    return next((n for n, each in enumerate(lines, 1) if each.startswith(b"skills")), None)
