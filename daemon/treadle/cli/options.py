"""The options that several commands share: which session, and in which form it is shown."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

AgentOption: TypeAlias = Annotated[str, typer.Option("--agent", "-a", help="The agent's name.")]
InstanceOption: TypeAlias = Annotated[
    str, typer.Option("--instance", "-i", help="Which of its sessions.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

DEFAULT_AGENT = "assistant"
DEFAULT_INSTANCE = "default"
