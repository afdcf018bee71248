"""Finding a call's tool and reading its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from treadle.stack.stack import App
from treadle.thread.message import ToolCall
from treadle.tools.limits import cut_characters
from treadle.tools.nearest import did_you_mean
from treadle.tools.tool import CallEnv, Tool, ToolError

# What is quoted back to the model of what it sent: enough to recognise it.
_QUOTED_CHARACTERS = 200


class Validate:
    """Finds the tool and reads its arguments. Belongs before anything that judges the call."""

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Set the env's tool and arguments and pass it inwards.

        Raises:
            ToolError: there is no such tool, or the arguments do not fit.
        """
        env.tool = _find(env.call.name, env.tools)
        env.arguments = _decode(env.call, env.tool)
        await self._app(env)


def _find(name: str, tools: Mapping[str, Tool]) -> Tool:
    """Return the tool of this name.

    Raises:
        ToolError: there is none.
    """
    if name in tools:
        return tools[name]
    there_are = f"The tools are: {', '.join(tools)}." if tools else "There are no tools."
    guess = did_you_mean(name, tools)
    raise ToolError(f"There is no tool {_quoted(name)}.{guess} {there_are}")


def _decode(call: ToolCall, tool: Tool) -> Any:
    """Read a call's arguments.

    Raises:
        ToolError: they do not fit the schema.
    """
    if call.raw_arguments:
        raise ToolError(
            f"The arguments of {call.name} were no JSON object: {_quoted(call.raw_arguments)}. "
            f"Send an object that fits this schema: {_schema(tool)}"
        )
    try:
        return tool.decode(call.arguments)
    except msgspec.ValidationError as error:
        raise ToolError(
            f"The arguments of {call.name} do not fit: {_plain(error)}. "
            f"Send an object that fits this schema: {_schema(tool)}"
        ) from error


def _plain(error: msgspec.ValidationError) -> str:
    """Say `offset: Expected int, got str` for msgspec's ``Expected `int` … - at `$.offset```."""
    what, _, where = str(error).partition(" - at `$.")
    what = what.replace("`", "").replace("Object ", "")
    return f"{where.rstrip('`')}: {what}" if where else what


def _schema(tool: Tool) -> str:
    return msgspec.json.encode(tool.spec.parameters).decode()


def _quoted(text: str) -> str:
    return repr(cut_characters(text, _QUOTED_CHARACTERS))
