"""`treadle sessions delete`: a thread and all that lies beside it."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from treadle.cli.client import client_of_running
from treadle.cli.options import DEFAULT_AGENT, DEFAULT_INSTANCE, AgentOption, InstanceOption
from treadle.cli.sessions.stored import thread_file
from treadle.cli.streams import tell
from treadle.sanitise import clean_line
from treadle.thread.tasks import delete_with_tasks
from treadle.thread.whole import is_stored


def delete(
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a session's thread, with its damaged lines, its images and files, and its tasks.

    One that the shared daemon has open is closed there first; one that is open elsewhere is not
    deleted: close it there.
    """
    path = thread_file(agent, instance)
    if not yes:
        if not is_stored(path):
            tell("nothing was stored there")
            return
        _ask(agent, instance)
    is_gone = asyncio.run(_delete_there(agent, instance))
    if is_gone is None:
        is_gone = delete_with_tasks(path.parents[2], agent, instance)
    tell("deleted" if is_gone else "nothing was stored there")


async def _delete_there(agent: str, instance: str) -> bool | None:
    """Have the shared daemon delete it, which may hold it; None where none runs."""
    async with client_of_running() as client:
        if client is None:
            return None
        params = {"agent": agent, "instance": instance}
        return bool((await client.request("session/delete", params))["deleted"])


def _ask(agent: str, instance: str) -> None:
    """Go on only if the person says so.

    Raises:
        BadParameter: there is nobody to ask.
        Exit: the person does not want it.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is nobody to ask here; say --yes to delete the session")
    named = f"{clean_line(agent)} · {clean_line(instance)}"
    if not typer.confirm(f"Delete all that was said in {named}?", err=True):
        tell("kept")
        raise typer.Exit
