"""What the SDK's objects say, in the room's plain data."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from pydantic import BaseModel

from treadle.mcp.remote import (
    PromptArgument,
    RemotePrompt,
    RemoteResource,
    RemoteResult,
    RemoteTool,
)
from treadle.secrets import known
from treadle.tools.limits import cut_characters

# What is kept of a description; whole manuals have been seen here. A model is told less: `tools`.
DESCRIPTION_CHARACTERS = 10_000

# The same for a name for people.
TITLE_CHARACTERS = 200


def plain(model: BaseModel) -> dict[str, Any]:
    """Return an object as the protocol writes it."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def tool(told: types.Tool) -> RemoteTool:
    """Return a tool."""
    title = told.title or (told.annotations.title if told.annotations else "") or ""
    return RemoteTool(
        name=told.name,
        description=_description(told.description),
        parameters=told.input_schema,
        title=cut_characters(known().redact(title), TITLE_CHARACTERS),
        annotations=plain(told.annotations) if told.annotations else {},
    )


def result(told: types.CallToolResult) -> RemoteResult:
    """Return what a call came to."""
    return RemoteResult(
        blocks=tuple(plain(block) for block in told.content),
        structured=told.structured_content,
        is_error=bool(told.is_error),
    )


def resource(told: types.Resource) -> RemoteResource:
    """Return a resource."""
    return RemoteResource(
        uri=str(told.uri),
        name=told.title or told.name,
        description=_description(told.description),
        mime_type=told.mime_type or "",
    )


def template(told: types.ResourceTemplate) -> RemoteResource:
    """Return the template of some resources."""
    return RemoteResource(
        uri=told.uri_template,
        name=told.title or told.name,
        description=_description(told.description),
        mime_type=told.mime_type or "",
        is_template=True,
    )


def prompt(told: types.Prompt) -> RemotePrompt:
    """Return a prompt."""
    return RemotePrompt(
        name=told.name,
        description=_description(told.description),
        arguments=tuple(
            PromptArgument(each.name, _description(each.description), bool(each.required))
            for each in told.arguments or ()
        ),
    )


def _description(text: str | None) -> str:
    # Redacted before it is cut: half a secret is not recognised any more.
    return cut_characters(known().redact(text or ""), DESCRIPTION_CHARACTERS)
