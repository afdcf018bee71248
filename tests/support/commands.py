"""The tools `shell` and `jobs` on a folder, as a model meets them: no turn, no daemon."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.switchboard import within_bound
from treadle.permissions.policy import Policy
from treadle.sandbox.local import LocalSandbox
from treadle.thread.message import ToolCall
from treadle.tools.commands.jobs import jobs as jobs_tool
from treadle.tools.commands.shell import shell as shell_tool
from treadle.tools.files.read import read as read_tool
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.spill import Spill
from treadle.tools.tool import ToolContext

# What the bench has of the built-in tools.
TOOLS = {"shell": shell_tool, "jobs": jobs_tool, "read": read_tool}


class Bench:
    """A session's tools on a folder."""

    def __init__(self, folder: Path, outputs: Path) -> None:
        self.told: list[str] = []
        self.session = ToolSession(spill=Spill(outputs))
        self.context = ToolContext(
            LocalSandbox(folder),
            self.session,
            Policy("auto"),
            progress=lambda text, *_: self.told.append(text),
        )

    async def shell(self, command: str, **arguments: Any) -> ToolOutcome:
        return await self.call("shell", command=command, **arguments)

    async def jobs(self, **arguments: Any) -> ToolOutcome:
        return await self.call("jobs", **arguments)

    async def call(self, name: str, **arguments: Any) -> ToolOutcome:
        call = ToolCall("1", name, arguments)
        outcome = await within_bound(run_call(call, TOOLS, self.context))
        return replace(outcome, content=re.sub(r"\d+\.\d s", "N s", outcome.content))


def good(content: str) -> ToolOutcome:
    return ToolOutcome(content, ok=True, truncated=False)


def bad(content: str) -> ToolOutcome:
    return ToolOutcome(content, ok=False, truncated=False)
