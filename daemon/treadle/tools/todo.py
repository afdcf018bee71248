"""The tool `todo`: the session's list of steps."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.tools.todo_list import TodoItem, TodoState
from treadle.tools.tool import ToolContext, tool

# A list that is longer is no plan; each call sends the whole of it.
MAX_ITEMS = 100
# A line or two.
MAX_CHARACTERS = 500


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    text: Annotated[
        str, Meta(min_length=1, max_length=MAX_CHARACTERS, description="what is to be done")
    ]
    state: TodoState = "pending"


@tool(capability="read")
async def todo(
    items: Annotated[list[Item], Meta(max_length=MAX_ITEMS)], *, context: ToolContext
) -> str:
    """Keep a list of the steps of a longer task.

    Each call replaces the whole list; an empty one clears it. Have one step in progress at a
    time, and mark it done as soon as it is.

    Args:
        items: all steps, in order.
    """
    listed = context.session.todo
    listed.replace([TodoItem(item.text, item.state) for item in items])
    return listed.rendered()
