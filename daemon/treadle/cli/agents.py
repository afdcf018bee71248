"""`treadle agents`: who can be prompted, and which files are broken."""

from __future__ import annotations

import asyncio
from typing import Any

import typer

from treadle.cli.client import local_client
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, tell, to_json

app = typer.Typer(
    help="Agents: who can be prompted, and from which files they come.", no_args_is_help=True
)


@app.callback()
def _agents() -> None:
    """Keep `list` a command of its own, for those that will stand beside it."""


@app.command("list")
def list_agents(as_json: JsonOption = False) -> None:
    """List every agent, and every agent file with a problem."""
    listed = asyncio.run(_list())
    if as_json:
        print(to_json(listed))
        return
    for agent in listed["agents"]:
        tools = ", ".join(agent["tools"]) or "no tools"
        say(f"{agent['name']}  {agent['permissions']}  {agent['model'] or 'no model'}  {tools}")
        say(f"  {agent['description']}  ({agent['source']})")
    for problem in listed["problems"]:
        tell(f"problem: {problem['path']}: {problem['message']}")


async def _list() -> Any:
    async with local_client() as client:
        return await client.request("agent/list")
