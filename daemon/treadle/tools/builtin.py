"""The built-in tools, in the order in which models are told of them: one line each."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.tools.ask import ask
from treadle.tools.commands.jobs import jobs
from treadle.tools.commands.shell import shell
from treadle.tools.files.edit import edit
from treadle.tools.files.read import read
from treadle.tools.files.remove import remove
from treadle.tools.files.undo import undo
from treadle.tools.files.write import write
from treadle.tools.search.glob import glob
from treadle.tools.search.grep import grep
from treadle.tools.skill import skill
from treadle.tools.task import task
from treadle.tools.todo import todo
from treadle.tools.tool import Tool
from treadle.tools.web.fetch import fetch
from treadle.tools.web.web_search import web_search

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
