"""A session's options: they narrow what an agent has and never widen it.

Naming another model is no widening as long as it is asked for at the agent's own endpoint, with
the agent's own key: authority is what a session may do and whom it may tell. An agent whose file
says `model: embedded`, or a script, tells nobody, so a model elsewhere would widen that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import is_local
from treadle.errors import InvalidParams, WouldWiden
from treadle.mcp.naming import server_of_tool
from treadle.permissions.modes import MODES, PermissionMode, is_stricter_or_equal
from treadle.sandbox.paths import is_within, real_path
from treadle.tools.builtin import BUILTIN
from treadle.tools.commands.jobs import jobs
from treadle.tools.nearest import did_you_mean
from treadle.tools.skill import skill
from treadle.tools.tool import Tool
from treadle.tools.web.web_search import web_search

# What a session or a prompt may ask for where the agent sets no bound of its own.
MOST_TURNS = 100


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a client asks for; None where it says nothing."""

    cwd: Path | None = None
    model: str | None = None
    tools: tuple[str, ...] | None = None
    permissions: PermissionMode | None = None
    max_turns: int | None = None

    def difference(self, opened: SessionOptions) -> tuple[str, Any, Any] | None:
        """Compare what is asked for now with what a session was opened with.

        Returns:
            The wire's name of the first option that is given and differs, what it is and what
            is wanted, as JSON has them; None where nothing given differs.
        """
        for name, wanted in self._plain().items():
            is_ = opened._plain()[name]
            if wanted is not None and wanted != is_:
                return _WIRE_NAMES.get(name, name), is_, wanted
        return None

    def _plain(self) -> dict[str, Any]:
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain["cwd"] = None if self.cwd is None else str(self.cwd)
        plain["tools"] = None if self.tools is None else sorted(set(self.tools))
        return plain


_WIRE_NAMES = {"max_turns": "maxTurns"}


def narrow(definition: AgentDefinition, options: SessionOptions) -> AgentDefinition:
    """Return the agent as a session with these options has it; blocks on the disk for a moment.

    Raises:
        WouldWiden: an option asks for more than the agent has; `field` names it.
        InvalidParams: an option names a folder, a tool or a mode that is not there.
    """
    tools, own_tools, mcp_tools = _tools(definition, options.tools)
    return replace(
        definition,
        cwd=_cwd(definition, options.cwd),
        model=_model(definition, options.model),
        tools=tools,
        own_tools=own_tools,
        mcp_tools=mcp_tools,
        permissions=_permissions(definition, options.permissions),
        max_turns=_max_turns(definition, options.max_turns),
    )


def advertised_tools(definition: AgentDefinition, config: Config | None = None) -> tuple[Tool, ...]:
    """Return the tools a model is told of: the agent's, as far as its mode can ever allow them.

    The order is the built-ins' own, so that it is the same at every turn. What needs something
    of the person's configuration, or a skill, is told of only where that is there.
    """
    lacking = [] if config and config.search else [web_search]
    lacking += [] if definition.skills else [skill]
    told = tuple(
        tool
        for name, tool in BUILTIN.items()
        if (definition.tools is None or name in definition.tools)
        and (tool.capability != "shell" or definition.sandbox == "local")
        and _can_be_allowed(tool, definition)
        and tool not in lacking
    )
    # There are jobs only where commands are run.
    if not any(tool.capability == "shell" for tool in told):
        told = tuple(tool for tool in told if tool is not jobs)
    own = definition.own_tools
    return told + tuple(tool for tool in own if _can_be_allowed(tool, definition))


def _can_be_allowed(tool: Tool, definition: AgentDefinition) -> bool:
    return definition.policy.verdict(tool.spec.name, tool.capability) != "refuse"


def _cwd(definition: AgentDefinition, wanted: Path | None) -> Path | None:
    if wanted is None:
        return definition.cwd
    real = real_path(str(wanted)) if wanted.is_absolute() else None
    if real is None:
        raise InvalidParams(
            f"cwd must be an absolute path, not {str(wanted)!r}", path="options.cwd"
        )
    if definition.cwd and not is_within(real, Path(os.path.realpath(definition.cwd))):
        raise WouldWiden(
            f"cwd must be the agent's own folder {definition.cwd} or lie below it", field="cwd"
        )
    if not real.is_dir():
        raise InvalidParams(f"cwd {str(wanted)!r} is not an existing folder", path="options.cwd")
    return real


def _model(definition: AgentDefinition, wanted: str | None) -> str | None:
    if wanted is None:
        return definition.model
    if not wanted.strip() or not wanted.isprintable():
        raise InvalidParams("model must be a model's name", path="options.model")
    if definition.model and is_local(definition.model) and not is_local(wanted):
        raise WouldWiden(
            f"the agent's model is {definition.model}, which sends nothing anywhere; "
            f"{wanted} would",
            field="model",
        )
    return wanted.strip()


def _tools(
    definition: AgentDefinition, wanted: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, tuple[Tool, ...], tuple[str, ...] | None]:
    """Return what is left: the names of built-in tools, the agent's own, those of its servers."""
    if wanted is None:
        return definition.tools, definition.own_tools, definition.mcp_tools
    built_in = tuple(BUILTIN) if definition.tools is None else definition.tools
    brought = tuple(tool.spec.name for tool in definition.own_tools)
    for name in wanted:
        # Which tools a server has is known only once it runs.
        if name in BUILTIN or name in brought or not server_of_tool(name):
            _check_tool(name, built_in, brought)
        else:
            _check_mcp_tool(name, definition)
    return (
        tuple(name for name in built_in if name in wanted),
        tuple(tool for tool in definition.own_tools if tool.spec.name in wanted),
        tuple(name for name in wanted if server_of_tool(name) in definition.mcp_names),
    )


def _check_tool(name: str, built_in: tuple[str, ...], brought: tuple[str, ...]) -> None:
    if name not in BUILTIN and name not in brought:
        known = (*BUILTIN, *brought)
        raise InvalidParams(
            f"there is no tool {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}",
            path="options.tools",
        )
    if name not in built_in and name not in brought:
        has = ", ".join((*built_in, *brought)) or "none"
        raise WouldWiden(f"the agent has no tool {name}; it has: {has}", field="tools")


def _check_mcp_tool(name: str, definition: AgentDefinition) -> None:
    if (server := server_of_tool(name)) not in definition.mcp_names:
        has = ", ".join(definition.mcp_names) or "none"
        raise WouldWiden(
            f"the agent has no MCP server {server}, so no tool {name}; it has: {has}",
            field="tools",
        )
    if definition.mcp_tools is not None and name not in definition.mcp_tools:
        has = ", ".join(definition.mcp_tools) or "none"
        raise WouldWiden(f"of MCP servers' tools the agent has only: {has}", field="tools")


def _permissions(definition: AgentDefinition, wanted: PermissionMode | None) -> PermissionMode:
    if wanted is None:
        return definition.permissions
    if wanted not in MODES:
        raise InvalidParams(
            f"permissions must be one of {', '.join(MODES)}", path="options.permissions"
        )
    if not is_stricter_or_equal(wanted, than=definition.permissions):
        raise WouldWiden(
            f"the agent's permissions are {definition.permissions}; {wanted} would allow more",
            field="permissions",
        )
    return wanted


def _max_turns(definition: AgentDefinition, wanted: int | None) -> int | None:
    if wanted is None:
        return definition.max_turns
    if wanted < 1:
        raise InvalidParams("maxTurns must be at least 1", path="options.maxTurns")
    most = definition.max_turns or MOST_TURNS
    if wanted > most:
        raise WouldWiden(f"maxTurns may be at most {most} here, not {wanted}", field="maxTurns")
    return wanted
