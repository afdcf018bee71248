"""What a server asks and tells of itself, brought to the host in plain data.

Owns what is understood of it: forms and text. Refuses to know who answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.client.session import ClientRequestContext, IncomingMessage
from pydantic import FileUrl

from treadle.mcp.remote import Elicited, Host
from treadle.tools.limits import cut_characters
from treadle.tools.sampling import CannotSample, Said

# What a server logs at once and somebody may want to read.
LOG_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callbacks that the SDK's session is given.

    Args:
        host: whom they speak for.
    """

    host: Host

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """Tell the folders."""
        folders = self.host.roots()
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(each.as_uri()), name=each.name) for each in folders]
        )

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Have the person fill in a form."""
        if not isinstance(params, types.ElicitRequestFormParams):
            return _refused("only forms can be filled in here, no addresses visited")
        answer = await self.host.elicit(Elicited(params.message, params.requested_schema))
        accepted = answer.action == "accept"
        return types.ElicitResult(
            action=answer.action, content=answer.content if accepted else None
        )

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Have the agent's model answer."""
        messages = [(each.role, _text(each)) for each in params.messages]
        if params.tools or any(text is None for _, text in messages):
            return _refused("the model is asked in plain text only, without tools")
        asked: tuple[Said, ...] = tuple((role, text or "") for role, text in messages)
        try:
            text, model = await self.host.sample(
                asked, params.system_prompt or "", max(0, params.max_tokens)
            )
        except CannotSample as why:
            return types.ErrorData(code=types.INTERNAL_ERROR, message=str(why))
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text=text), model=model
        )

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass on what it logs."""
        said = params.data if isinstance(params.data, str) else repr(params.data)
        text = f"{params.logger}: {said}" if params.logger else said
        self.host.said(params.level, cut_characters(text, LOG_CHARACTERS))

    async def notice(self, message: IncomingMessage) -> None:
        """See that its tools are others now."""
        if isinstance(message, types.ToolListChangedNotification):
            self.host.tools_changed()


def _refused(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_PARAMS, message=why)


def _text(message: types.SamplingMessage) -> str | None:
    """Return a message's text; None where it holds anything else."""
    parts: list[Any] = message.content_as_list
    if not all(isinstance(part, types.TextContent) for part in parts):
        return None
    return "\n".join(part.text for part in parts)
