"""`treadle sessions`: what is stored, and where."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.chat.wording import count
from treadle.cli.client import local_client
from treadle.cli.options import (
    DEFAULT_AGENT,
    DEFAULT_INSTANCE,
    AgentOption,
    InstanceOption,
    JsonOption,
)
from treadle.cli.sessions.delete import delete
from treadle.cli.sessions.expire import expire
from treadle.cli.sessions.mend import repair, verify
from treadle.cli.sessions.move import export, fork, import_
from treadle.cli.sessions.show import PAGE_SIZE, show
from treadle.cli.sessions.stored import thread_file
from treadle.cli.streams import say, tell, to_json
from treadle.folders import find_folders
from treadle.thread.catalogue import ThreadIndex

app = typer.Typer(
    help="Sessions: what is stored, and where; moving, mending and deleting it.",
    no_args_is_help=True,
)


@app.command("list")
def list_sessions(
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Only this agent's.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Those of sub-agents, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List every stored session, newest first; what no session could be told from is named."""
    listed = asyncio.run(_every_session(agent, tasks=tasks))
    for problem in ThreadIndex(find_folders().data).scan()[1]:
        tell(f"treadle: left out: {problem.path}: {problem.message}")
    if as_json:
        print(to_json(listed))
        return
    for session in listed:
        held = f"  held by process {session['heldBy']}" if "heldBy" in session else ""
        say(
            f"{session.get('updatedAt', '')}  {session['agent']}  {session['instance']}"
            f"  {count(session['messages'], 'message')}{held}"
        )


@app.command("path")
def path(agent: AgentOption = DEFAULT_AGENT, instance: InstanceOption = DEFAULT_INSTANCE) -> None:
    """Print the file of a session's thread; deleting it starts the thread afresh."""
    file = thread_file(agent, instance)
    if not file.exists():
        tell(f"treadle: nothing is stored there; it would be {file}")
        raise typer.Exit(exit_codes.FAILED)
    print(file)


# They are listed in this order.
app.command("show")(show)
app.command("export")(export)
app.command("import")(import_)
app.command("fork")(fork)
app.command("delete")(delete)
app.command("expire")(expire)
app.command("verify")(verify)
app.command("repair")(repair)


async def _every_session(agent: str | None, *, tasks: bool) -> list[Any]:
    params: dict[str, Any] = {"limit": PAGE_SIZE, "tasks": tasks}
    params |= {} if agent is None else {"agent": agent}
    async with local_client() as client:
        pages = client.pages("session/list", params)
        return [session async for page in pages for session in page["sessions"]]
