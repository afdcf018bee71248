"""What a server is given when it asks: folders, a person's answer, a model's.

Owns whom it reaches: the session whose call it is answering, and nobody else. Refuses to know how
any of that is spoken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from treadle.mcp.callers import Callers, NobodyWaits
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.eliciting import CANCELLED, put_to_person
from treadle.mcp.remote import ElicitationAnswer, Elicited
from treadle.sanitise import clean_line
from treadle.secrets import known
from treadle.tools.sampling import CannotSample, Said

logger = logging.getLogger(__name__)

# A line of what a server logs, in ours.
_SAID_CHARACTERS = 300

_NOBODY = "no turn waits for this server, so nobody's model can answer"


class ServerHost:
    """One server's `remote.Host`.

    Args:
        declaration: the server's.
        folder: where its session works; None where several share it.
        callers: whose calls it is answering.
        on_changed: called when its tools are others.
    """

    def __init__(
        self,
        declaration: ServerDeclaration,
        folder: Path | None,
        callers: Callers,
        on_changed: Callable[[], None],
    ) -> None:
        self._declaration = declaration
        self._folder = folder
        self._callers = callers
        self._on_changed = on_changed

    @property
    def may_sample(self) -> bool:
        """Whether sampling is offered at all."""
        return self._declaration.sampling

    def roots(self) -> tuple[Path, ...]:
        """Return the folder that the session works in."""
        return (self._folder,) if self._folder else ()

    def tools_changed(self) -> None:
        """Have the tools listed anew."""
        self._on_changed()

    def said(self, level: str, text: str) -> None:
        """Note what the server logs, at a level that does not fill our log."""
        line = clean_line(known().redact(text))[:_SAID_CHARACTERS]
        logger.debug("the MCP server %s says (%s): %s", self._declaration.name, level, line)

    async def elicit(self, asked: Elicited) -> ElicitationAnswer:
        """Ask the person in the session whose call is in flight; nobody else is meant."""
        context = self._callers.only()
        if context is None:
            return ElicitationAnswer("decline")
        asking = put_to_person(context.session.asker, self._declaration.name, asked)
        try:
            with self._callers.paused():
                return await self._callers.on_behalf(asking)
        except NobodyWaits:
            return CANCELLED

    async def sample(
        self, messages: tuple[Said, ...], system: str, max_tokens: int
    ) -> tuple[str, str]:
        """Have the model of the turn whose call is in flight answer.

        Raises:
            CannotSample: it is not allowed to ask, nobody's call is in flight, or no answer came.
        """
        if not self.may_sample:
            raise CannotSample("this agent lets the server ask its model nothing")
        context = self._callers.only()
        if context is None or context.session.sampler is None:
            raise CannotSample(_NOBODY)
        sampling = context.session.sampler.sample(messages, system, max_tokens)
        try:
            return await self._callers.on_behalf(sampling)
        except NobodyWaits:
            raise CannotSample(_NOBODY) from None
