"""Which files of a folder are agents, and what they are called.

An agent is called as its file without `.md` or `.py`. Hidden files are none, and neither are
Python files whose names begin with `_`. Refuses to touch the disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from treadle.errors import ConfigurationError, InvalidAgent, InvalidParams
from treadle.thread.paths import validate_name

MARKDOWN_SUFFIX = ".md"
PYTHON_SUFFIX = ".py"

# Where both are there, the first one is the agent: it runs nothing.
SUFFIXES = (MARKDOWN_SUFFIX, PYTHON_SUFFIX)

# What some system takes for something else in a file's name; a file may be shared between them.
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE)
_NOT_IN_FILE_NAMES = frozenset('/\\:*?"<>|')

# Half of what a file system takes, so that there is room for what lies beside a file.
_NAME_BYTES = 120


def agent_files(files: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Tell agents from other files of a folder.

    Returns:
        The file of each agent by its name, sorted, and why a file is not used, by file.
    """
    agents: dict[str, str] = {}
    unused: dict[str, str] = {}
    for suffix in SUFFIXES:
        for file in sorted(files):
            # `_` is for Python alone: in Markdown it was always a name like any other.
            hidden = (".", "_") if suffix == PYTHON_SUFFIX else "."
            if not file.endswith(suffix) or file.startswith(hidden):
                continue
            name = file.removesuffix(suffix)
            if name in agents:
                unused[file] = f"{file} is not used, for there is {agents[name]} too; remove one"
            else:
                agents[name] = file
    return dict(sorted(agents.items())), unused


def check_name(name: str, path: Path) -> None:
    """Refuse a file whose name can be no agent's.

    Raises:
        InvalidAgent: it says what is wrong with the name.
    """
    try:
        validate_name(name, "the file's name")
    except InvalidParams as error:
        raise InvalidAgent(f"{error.message}; rename {path.name!r}", path=str(path)) from error


def check_new_name(name: str) -> None:
    """Refuse a name that a new agent's file cannot have on every system.

    Raises:
        ConfigurationError: it says what is wrong with the name.
    """
    try:
        validate_name(name, "the name")
    except InvalidParams as error:
        raise ConfigurationError(error.message) from error
    if bad := next((each for each in name if each in _NOT_IN_FILE_NAMES), None):
        raise ConfigurationError(f"{bad} cannot stand in an agent's name, which names its file")
    if name.startswith((".", "_")) or name.endswith((".", " ")) or name != name.strip():
        raise ConfigurationError(
            "an agent's name must not begin with . or _, end with a dot, or have blanks around it"
        )
    if _DEVICE.fullmatch(name.partition(".")[0]):
        raise ConfigurationError(f"{name!r} is a device on Windows; take another name")
    if len(name.encode()) > _NAME_BYTES:
        raise ConfigurationError("the name is too long for a file's; take a shorter one")
