"""The command line for people: the commands, and how a failure is told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from treadle.cli import agents, call, exit_codes, model, prompt, sessions
from treadle.cli.client import RemoteError
from treadle.errors import TreadleError
from treadle.version import __version__

app = typer.Typer(
    name="treadle",
    help="Remembering LLM agents, from a terminal. `treadle serve` is for editors and scripts.",
    epilog=(
        "Exit codes: 0 done; 1 failed, standard error says why; 2 usage; "
        "3 the turn ended early (a limit, a refusal); 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("prompt")(prompt.prompt)
app.command("call")(call.call)
app.add_typer(sessions.app, name="sessions")
app.add_typer(agents.app, name="agents")
app.add_typer(model.app, name="model")


@app.command("serve", context_settings={"ignore_unknown_options": True})
def serve(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Speak JSON-RPC on standard input and output, for an editor or a script."""
    from treadle.cli.serve import serve as run_serve

    raise typer.Exit(run_serve(arguments or []))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; a failure is one line on standard error."""
    try:
        app(args=list(arguments))
    except SystemExit as leave:
        return int(leave.code or 0)
    except (RemoteError, TreadleError) as error:
        _tell(error)
        return exit_codes.FAILED
    return exit_codes.OK


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)
    ] = False,
) -> None:
    if version:
        print(f"treadle {__version__}")
        raise typer.Exit


def _tell(error: RemoteError | TreadleError) -> None:
    reason = getattr(error, "reason", "")
    print(f"treadle: {error}" + (f" [{reason}]" if reason else ""), file=sys.stderr)
    data = error.data if isinstance(error, TreadleError) else error.error.get("data") or {}
    if how := data.get("how"):
        print(how, file=sys.stderr)
