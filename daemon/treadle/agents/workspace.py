"""The agents of a project: the files below `.treadle/agents` in a folder that a client works in.

They are read once, and what was read is what is trusted, parsed and run: nothing can be put in
their place in between. Owns that, their digest, and what such an agent is called.
Refuses to know whether they are trusted. Blocks on the disk for a moment.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from treadle.agents.checks import FILE_LIMIT_BYTES
from treadle.agents.definition import AgentDefinition
from treadle.agents.markdown import parse_agent
from treadle.agents.naming import MARKDOWN_SUFFIX, agent_files, check_name
from treadle.agents.python_file import load_agent
from treadle.errors import InvalidAgent
from treadle.thread.files import O_NOFOLLOW, open_existing

# Where a project keeps its agents; they need no more folders than these two.
WORKSPACE_AGENTS = Path(".treadle", "agents")

# A project's agents and what they include, many times over. All of it is read at each turn.
MOST_FILES = 100
MOST_BYTES = 1024 * 1024
MOST_DEPTH = 5

# 48 bits: two trusted folders of one name never meet by chance, and the name can still be typed.
_HASH_DIGITS = 12
_SHOWN_NAME_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Workspace:
    """A project's agents, as they were read.

    Attributes:
        folder: the project's real path.
        files: what lies below its `.treadle/agents`: bytes by path, written with `/`.
        digest: SHA-256 of all of it.
    """

    folder: Path
    files: Mapping[str, bytes]
    digest: str

    @property
    def agents_folder(self) -> Path:
        """Where its agents lie."""
        return self.folder / WORKSPACE_AGENTS

    @property
    def agent_files(self) -> dict[str, str]:
        """The files that are agents, by the name that they give them."""
        return agent_files([path for path in self.files if "/" not in path])[0]


def read_workspace(folder: Path) -> Workspace | None:
    """Read a project's agents; None where it has none.

    Args:
        folder: the project's folder.

    Raises:
        InvalidAgent: there are some, and they cannot be read safely.
    """
    real = Path(os.path.realpath(folder))
    agents = real / WORKSPACE_AGENTS
    try:
        if not stat.S_ISDIR(agents.stat().st_mode):
            return None
        if not Path(os.path.realpath(agents)).is_relative_to(real):
            raise InvalidAgent(f"{agents} leads out of its workspace", path=str(agents))
        files = dict(sorted(_files(agents)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidAgent(f"{agents} cannot be read: {why}", path=str(agents)) from error
    workspace = Workspace(real, files, _digest(files))
    return workspace if workspace.agent_files else None


def tail_of(folder: Path) -> str:
    """Return what stands behind the `@` in the names of a project's agents.

    The folder's own name is for people; the hash of its whole path tells it from all others.

    Args:
        folder: the project's real path.
    """
    name = re.sub(r"[^\w.-]+", "-", folder.name)[:_SHOWN_NAME_CHARACTERS] or "root"
    return f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:_HASH_DIGITS]}"


def full_name(name: str, folder: Path) -> str:
    """Return the name by which everybody knows a project's agent.

    Args:
        name: the one that its file gives it.
        folder: the project's real path.
    """
    return f"{name}@{tail_of(folder)}"


def define(workspace: Workspace) -> tuple[dict[str, AgentDefinition], list[InvalidAgent]]:
    """Parse and run a project's agents, which have to be trusted for that.

    They still have to be `placed`.

    Returns:
        Those that can be used, by name, and what is wrong with the others.
    """
    agents: dict[str, AgentDefinition] = {}
    problems: list[InvalidAgent] = []
    for name, file in workspace.agent_files.items():
        try:
            agent = _defined(workspace, name, file)
            agents[agent.name] = agent
        except InvalidAgent as error:
            problems.append(error)
    clashes = agent_files([path for path in workspace.files if "/" not in path])[1]
    for file, why in clashes.items():
        problems.append(InvalidAgent(why, path=str(workspace.agents_folder / file)))
    return agents, problems


def placed(agent: AgentDefinition) -> AgentDefinition:
    """Return a project's agent in its folder: the project's, or one that it names below that.

    To be asked at each turn: a link in the project may lead elsewhere by now.

    Raises:
        InvalidAgent: its folder is not there, or not in the project.
    """
    assert agent.workspace is not None, "only a project's agents have a place in one"
    if agent.sandbox == "virtual":
        return agent
    real = Path(os.path.realpath(agent.cwd or agent.workspace))
    if not real.is_relative_to(agent.workspace):
        raise InvalidAgent(
            f"{Path(agent.source).name}: cwd {agent.cwd} lies outside its workspace "
            f"{agent.workspace}",
            path=agent.source,
        )
    return replace(agent, cwd=real)


@dataclass(frozen=True, slots=True)
class _ReadShelf:
    """The files of a workspace as they were read, for what instructions include."""

    workspace: Workspace

    def take(self, beside: Path, name: str) -> tuple[Path, bytes]:
        folder = self.workspace.agents_folder
        path = Path(os.path.normpath(beside.parent / name))
        if not path.is_relative_to(folder):
            raise ValueError(f"the file must lie inside {folder}")
        data = self.workspace.files.get(path.relative_to(folder).as_posix())
        if data is None:
            raise ValueError(f"there is no file {path}, links not counted")
        return path, data


def _defined(workspace: Workspace, name: str, file: str) -> AgentDefinition:
    path = workspace.agents_folder / file
    full = full_name(name, workspace.folder)
    check_name(full, path)
    data = workspace.files[file]
    if file.endswith(MARKDOWN_SUFFIX):
        agent = parse_agent(path, data, _ReadShelf(workspace), workspace.folder)
    else:
        agent = load_agent(path, data)
    return replace(agent, name=full, workspace=workspace.folder)


def _files(agents: Path) -> Iterator[tuple[str, bytes]]:
    """Read every regular file below a folder; links are not followed, hidden files left out.

    Raises:
        InvalidAgent: there is more than any project needs.
        OSError: something cannot be read.
    """
    size_bytes = 0
    for number, path in enumerate(_paths(agents, MOST_DEPTH)):
        size_bytes += len(data := _bytes(path))
        if number >= MOST_FILES or size_bytes > MOST_BYTES:
            raise InvalidAgent(
                f"{agents} holds more than {MOST_FILES} files or {MOST_BYTES // 1024} KiB",
                path=str(agents),
            )
        yield path.relative_to(agents).as_posix(), data


def _paths(folder: Path, depth: int) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "__pycache__")):
                continue
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
            elif depth and entry.is_dir(follow_symlinks=False):
                yield from _paths(Path(entry.path), depth - 1)


def _bytes(path: Path) -> bytes:
    with os.fdopen(open_existing(path, os.O_RDONLY | O_NOFOLLOW), "rb") as file:
        return file.read(FILE_LIMIT_BYTES + 1)


def _digest(files: Mapping[str, bytes]) -> str:
    """Return one digest of names and contents; none of them can stand for another's part."""
    digest = hashlib.sha256()
    for path, data in files.items():
        for part in (os.fsencode(PurePosixPath(path)), data):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()
