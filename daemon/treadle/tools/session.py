"""What lives from one tool call of a session to the next, and is given back when it closes.

Owns nothing but the list of those things; each has a module of its own.
"""

from __future__ import annotations

import asyncio

from treadle.permissions.approvals import Approvals
from treadle.tools.asking import Asker, NobodyAnswers
from treadle.tools.commands.running import JobEnd, Jobs
from treadle.tools.delegate import Delegate
from treadle.tools.files.changes import Changes
from treadle.tools.files.seen import Seen
from treadle.tools.sampling import Sampler
from treadle.tools.skills import Skill
from treadle.tools.spill import Spill
from treadle.tools.todo_list import TodoList
from treadle.tools.web.network import Web


class ToolSession:
    """The tools' side of one session.

    Args:
        approvals: what the session's person has allowed; nobody is there to ask where absent.
        spill: where too long outputs are kept; nowhere where absent.
        asker: puts a model's questions to the person; nobody is there where absent.

    Attributes:
        seen: the files that were read or written.
        changes: what was done to files, for undo.
        todo: what the model means to do.
        writing: held by whoever changes files, so that one change follows another.
        jobs: the commands that run.
        web: how pages and search results are got.
        skills: those that the agent has.
        delegate: runs tasks; None where nobody does.
        sampler: has the turn's model answer an MCP server; None where nobody does.
        task: the number of the task whose tools these are; None where it is the session's own.
        elsewhere: where a task's tools act, if not where the session's do; what a person allows
            for the session is told apart by it.
    """

    def __init__(
        self,
        *,
        approvals: Approvals | None = None,
        spill: Spill | None = None,
        asker: Asker | None = None,
    ) -> None:
        self.approvals = approvals or Approvals()
        self.asker = asker or NobodyAnswers()
        self.spill = spill or Spill()
        self.seen = Seen()
        self.changes = Changes()
        self.todo = TodoList()
        self.writing = asyncio.Lock()
        self.jobs = Jobs(self.spill)
        self.web = Web()
        self.skills: tuple[Skill, ...] = ()
        self.delegate: Delegate | None = None
        self.sampler: Sampler | None = None
        self.task: int | None = None
        self.elsewhere = ""

    @property
    def is_busy(self) -> bool:
        """Whether something goes on although no turn runs, so that it must not be given back."""
        return bool(self.jobs.running)

    async def close(self) -> list[JobEnd]:
        """Give everything back; safe to call twice.

        Returns:
            The commands that were stopped, and how each ended.
        """
        if self.delegate is not None:
            await self.delegate.close()
        ended = await self.jobs.close()
        await self.spill.close()
        return ended
