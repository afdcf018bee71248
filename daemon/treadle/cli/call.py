"""`treadle call`: send any method of the protocol and print its result."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.client import RemoteError, client_of
from treadle.cli.options import NoDaemonOption
from treadle.cli.streams import to_json


def call(
    method: Annotated[str, typer.Argument(help="Such as session/list; the README lists them.")],
    params: Annotated[
        str, typer.Argument(help="The params as JSON; - reads them from standard input.")
    ] = "{}",
    events: Annotated[
        bool, typer.Option("--events", help="Print notifications too, a line each.")
    ] = False,
    no_daemon: NoDaemonOption = False,
) -> None:
    """Send one request to the shared daemon; print the result, or the error, as JSON."""
    text = sys.stdin.read() if params == "-" else params
    try:
        decoded = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"the params are no JSON: {error}") from None
    raise typer.Exit(asyncio.run(_call(method, decoded, events=events, own=no_daemon)))


async def _call(method: str, params: Any, *, events: bool, own: bool) -> int:
    def show(name: str, payload: dict[str, Any]) -> None:
        if events:
            _print({"method": name, "params": payload})

    async with client_of(show, own=own) as client:
        try:
            _print(await client.request(method, params))
        except RemoteError as error:
            _print({"error": error.error}, to=sys.stderr)
            return exit_codes.of_error(error.reason)
    return exit_codes.OK


def _print(value: Any, to: Any = None) -> None:
    print(to_json(value), file=to or sys.stdout, flush=True)
