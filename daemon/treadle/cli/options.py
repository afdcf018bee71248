"""The options that several commands share: which session, and in which form it is shown."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from treadle.rendezvous.environment import NO_DAEMON_VARIABLE

AgentOption: TypeAlias = Annotated[str, typer.Option("--agent", "-a", help="The agent's name.")]
InstanceOption: TypeAlias = Annotated[
    str, typer.Option("--instance", "-i", help="Which of its sessions.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

NoDaemonOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-daemon",
        envvar=NO_DAEMON_VARIABLE,
        help="Run a daemon in this process, and leave the shared one alone.",
    ),
]

DEFAULT_AGENT = "assistant"
DEFAULT_INSTANCE = "default"
