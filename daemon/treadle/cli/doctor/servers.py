"""The MCP servers that files declare: which of them cannot be found or filled in.

Starts none: `treadle mcp check` does that, one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle.agents.config import CONFIG_NAME, Config
from treadle.agents.definition import AgentDefinition
from treadle.cli.doctor.report import Check, Report
from treadle.cli.mcp.declared import Declared, servers_in, trouble


async def look_at_servers(
    report: Report, agents: Sequence[AgentDefinition], config: Config, config_folder: Path
) -> None:
    """Tell which servers cannot be started as they are declared; nothing where there are none."""
    servers = servers_in(agents, config, config_folder / CONFIG_NAME)
    if not servers:
        return
    wrong = [check for each in servers if (check := await _check(each))]
    # A server that several agents have is told of once.
    report.checks += dict.fromkeys(wrong)
    if not wrong:
        names = ", ".join(dict.fromkeys(each.server.name for each in servers))
        report.checks.append(Check("mcp", "ok", f"declared, and can be found: {names}"))


async def _check(declared: Declared) -> Check | None:
    problem = await trouble(declared)
    if not problem:
        return None
    told = f"{problem}; it is declared in {declared.source}"
    return Check(f"mcp/{declared.server.name}", "problem", told, "treadle mcp list")
