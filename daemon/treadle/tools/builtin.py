"""The built-in tools, in the order in which models are told of them: one line each."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.tools.ask import ask
from treadle.tools.edit import edit
from treadle.tools.fetch import fetch
from treadle.tools.glob import glob
from treadle.tools.grep import grep
from treadle.tools.jobs import jobs
from treadle.tools.read import read
from treadle.tools.remove import remove
from treadle.tools.shell import shell
from treadle.tools.skill import skill
from treadle.tools.task import task
from treadle.tools.todo import todo
from treadle.tools.tool import Tool
from treadle.tools.undo import undo
from treadle.tools.web_search import web_search
from treadle.tools.write import write

_TOOLS = [
    read,
    glob,
    grep,
    edit,
    write,
    remove,
    undo,
    shell,
    jobs,
    fetch,
    web_search,
    todo,
    ask,
    skill,
    task,
]

BUILTIN: Mapping[str, Tool] = {tool.spec.name: tool for tool in _TOOLS}
