"""Calling built-in tools as a model does, in a sandbox of either kind, without a daemon."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.permissions.approvals import Answer, Approvals, Question
from treadle.permissions.policy import Policy
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.builtin import BUILTIN
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import ToolContext

# A call that is given up by itself has long done so; more is a hang.
SOON_SECONDS = 10.0


@dataclass
class Caller:
    """A model's side of one session: calls tools and is told what they say.

    Args:
        sandbox: where they act.
        policy: what they may do; everything where absent.
        session: what lives between calls.
    """

    sandbox: Sandbox
    policy: Policy = field(default_factory=lambda: Policy("auto"))
    session: ToolSession = field(default_factory=ToolSession)
    _ids: Any = field(default_factory=itertools.count)

    async def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """Call a tool."""
        call = ToolCall(f"call-{next(self._ids)}", name, arguments)
        context = ToolContext(self.sandbox, self.session, self.policy, call)
        return await run_call(call, BUILTIN, context)

    async def told(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that must do what it was asked for; return what it says."""
        outcome = await self.call(name, **arguments)
        assert outcome.ok, outcome.content
        return outcome.content

    async def refused(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that must not do what it was asked for; return what it says."""
        outcome = await self.call(name, **arguments)
        assert not outcome.ok, outcome.content
        return outcome.content


def in_memory(files: dict[str, bytes] | None = None) -> Caller:
    """Make a caller in a virtual sandbox, which holds these files."""
    return Caller(VirtualSandbox({} if files is None else files))


def on_disk(root: Path, files: dict[str, bytes] | None = None) -> Caller:
    """Make a caller in a folder, which is filled first."""
    for name, data in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    root.mkdir(parents=True, exist_ok=True)
    return Caller(LocalSandbox(root))


class Person:
    """Answers every question alike, after doing something, and keeps the questions."""

    def __init__(self, answer: Answer = "allow_once", meanwhile: Any = None) -> None:
        self.questions: list[Question] = []
        self._answer = answer
        self._meanwhile = meanwhile

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        if self._meanwhile is not None:
            await self._meanwhile()
        return self._answer


def asking(files: dict[str, bytes], person: Person) -> Caller:
    """Make a caller in a virtual sandbox whose changes a person is asked about."""
    session = ToolSession(approvals=Approvals(person))
    return Caller(VirtualSandbox(files), Policy("ask"), session)
