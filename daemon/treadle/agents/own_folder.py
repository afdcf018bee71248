"""The agents in the person's own folder: which there are, and what each means now.

Owns that a broken file is a problem and never a crash: its last good meaning stays in use.
Variables that these files name as secret are held as such from the moment a file is read.
Every method blocks on the disk, and up to a deadline on a Python file that has changed.
"""

from __future__ import annotations

import os
from pathlib import Path

from treadle.agents.cached_file import CachedFile, ReadFile, good_of, unreadable
from treadle.agents.definition import AgentDefinition
from treadle.agents.includes import FolderShelf
from treadle.agents.markdown import parse_agent
from treadle.agents.naming import PYTHON_SUFFIX, agent_files, check_name
from treadle.agents.ownership import why_not_ours
from treadle.agents.python_file import load_agent
from treadle.errors import InvalidAgent
from treadle.secrets import hold

AGENTS_FOLDER = "agents"


class OwnFolder:
    """The agents in a config folder, which need not exist.

    Two files whose names differ only by case are two agents, where the file system holds both;
    a name is always taken exactly as its file spells it.

    Args:
        config: the config folder.
    """

    def __init__(self, config: Path) -> None:
        self.path = config / AGENTS_FOLDER
        self._config = config
        self._files: dict[str, CachedFile[AgentDefinition]] = {}

    def look(self) -> tuple[dict[str, str], list[InvalidAgent]]:
        """Return the file of each agent by its name, and which files are not used.

        Raises:
            InvalidAgent: the folder is there and cannot be listed.
        """
        try:
            listed = os.listdir(self.path)  # noqa: PTH208 - names are wanted, not paths
        except FileNotFoundError:
            listed = []
        except OSError as error:
            raise unreadable(self.path, error) from error
        files, unused = agent_files(listed)
        for gone in self._files.keys() - set(files.values()):
            del self._files[gone]
        return files, [InvalidAgent(why, path=str(self.path / f)) for f, why in unused.items()]

    def get(self, file: str) -> AgentDefinition:
        """Return what a file means now, or last meant.

        Raises:
            InvalidAgent: it is broken and never was good.
        """
        return good_of(*self.read(file))

    def read(self, file: str) -> tuple[AgentDefinition | None, InvalidAgent | None]:
        """Return what a file means or last meant, and what is wrong with it."""
        if file not in self._files:
            self._files[file] = CachedFile(self.path / file, self._parse)
        known = self._files[file]
        if file.endswith(PYTHON_SUFFIX) and (refused := self._refusal(known.path)):
            return known.last(), refused
        return known.read()

    def _refusal(self, path: Path) -> InvalidAgent | None:
        """Tell why a Python file may not be run; asked each time, for a mode is no change of it."""
        try:
            why = why_not_ours(path, self._config)
        except OSError as error:
            return unreadable(path, error)
        return InvalidAgent(f"{path.name} is not run: {why}", path=str(path)) if why else None

    def _parse(self, path: Path, data: bytes, read: ReadFile) -> AgentDefinition:
        """Tell what a file means whose name can be an agent's.

        Raises:
            InvalidAgent: the file or its name is wrong.
        """
        check_name(path.stem, path)
        if path.suffix == PYTHON_SUFFIX:
            agent = load_agent(path, data)
        else:
            agent = parse_agent(path, data, FolderShelf(self._config, read))
        hold(*agent.secret_variables)
        return agent
