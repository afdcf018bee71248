"""The built-in tools, in the order in which models are told of them: one line each."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.tools.fetch import fetch
from treadle.tools.jobs import jobs
from treadle.tools.read import read
from treadle.tools.shell import shell
from treadle.tools.tool import Tool
from treadle.tools.web_search import web_search

_TOOLS = [
    read,
    shell,
    jobs,
    fetch,
    web_search,
]

BUILTIN: Mapping[str, Tool] = {tool.spec.name: tool for tool in _TOOLS}
