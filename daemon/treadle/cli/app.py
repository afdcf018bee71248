"""The command line for people: the commands, and how a failure is told."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from treadle.cli import agents, call, daemon, exit_codes, model, prompt, streams, trust
from treadle.cli.chat import command as chat
from treadle.cli.client import RemoteError
from treadle.cli.doctor.command import doctor
from treadle.cli.mcp import command as mcp
from treadle.cli.sessions import command as sessions
from treadle.errors import TreadleError
from treadle.version import __version__

app = typer.Typer(
    name="treadle",
    help="Remembering LLM agents, from a terminal. `treadle serve` is for editors and scripts.",
    epilog=(
        "Exit codes: 0 done; 1 failed, standard error says why; 2 usage; "
        "3 the turn ended early (a limit, a refusal); "
        "69 the shared daemon ended under `connect`; 74 `serve` could keep something nowhere; "
        "130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("prompt")(prompt.prompt)
app.command("chat")(chat.chat)
app.command("call")(call.call)
app.command("doctor")(doctor)
app.command("trust")(trust.trust)
app.add_typer(daemon.app, name="daemon")
app.add_typer(sessions.app, name="sessions")
app.add_typer(agents.app, name="agents")
app.add_typer(model.app, name="model")
app.add_typer(mcp.app, name="mcp")


@app.command("serve")
def _serve() -> None:
    """Speak JSON-RPC on standard input and output, for an editor or a script."""
    # Listed here for `--help` alone: `cli/main.py` takes the word before this module loads.


@app.command("connect")
def _connect() -> None:
    """Bridge standard input and output to the shared daemon, for an editor or a script."""
    # Listed here for `--help` alone, as `serve` is.


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; a failure is one line on standard error."""
    streams.prepare()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except OSError as error:
        streams.give_up_output()
        # A reader that has left, as `head` does, is no failure that anybody needs to be told.
        if error.errno != errno.EPIPE:
            streams.tell(f"treadle: {error}")
        return exit_codes.FAILED
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        app(args=list(arguments), prog_name="treadle")
    except SystemExit as leave:
        return int(leave.code or 0)
    except (RemoteError, TreadleError) as error:
        _tell(error)
        return exit_codes.FAILED
    return exit_codes.OK


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"treadle {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Keep the options that come before a command."""


def _tell(error: RemoteError | TreadleError) -> None:
    reason = getattr(error, "reason", "")
    streams.tell(f"treadle: {error}" + (f" [{reason}]" if reason else ""))
    data = error.data if isinstance(error, TreadleError) else error.error.get("data") or {}
    if how := data.get("how"):
        streams.tell(f"  {how}")
