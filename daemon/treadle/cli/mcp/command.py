"""`treadle mcp`: its commands, each in a file of its own."""

from __future__ import annotations

import typer

from treadle.cli.mcp.check import check
from treadle.cli.mcp.import_ import import_
from treadle.cli.mcp.list import list_servers

app = typer.Typer(
    help="MCP servers: which are declared, whether each answers, and those of other programs.",
    no_args_is_help=True,
)
app.command("list")(list_servers)
app.command("check")(check)
app.command("import")(import_)
