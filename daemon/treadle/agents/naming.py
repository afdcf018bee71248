"""Which files of a folder are agents, and what they are called.

An agent is called as its file without `.md` or `.py`. Hidden files are none, and neither are
Python files whose names begin with `_`. Refuses to touch the disk.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from treadle.errors import InvalidAgent, InvalidParams
from treadle.thread.paths import validate_name

MARKDOWN_SUFFIX = ".md"
PYTHON_SUFFIX = ".py"

# Where both are there, the first one is the agent: it runs nothing.
SUFFIXES = (MARKDOWN_SUFFIX, PYTHON_SUFFIX)


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
