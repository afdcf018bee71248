"""Structs of `daemon/status` and `daemon/stop`: the daemon itself, whoever's sessions it holds."""

from __future__ import annotations

from typing import Literal

from treadle.protocol.base import WireStruct


class SessionCounts(WireStruct):
    """How many sessions there are, and what they do.

    `open` are those with terms of their own, `held` those of them whose thread is in memory,
    `running` those with a turn (also one that waits for a person), `queued` counts prompts that
    wait, `jobs` sessions with a command in the background, `degraded` those with something that
    could not be written yet.
    """

    open: int
    held: int
    running: int
    queued: int
    jobs: int
    degraded: int


class DaemonStatusResult(WireStruct):
    """How the daemon is doing; `idleExitSeconds` is 0 where it stays for good."""

    pid: int
    version: str
    protocol_version: int
    started_at: str
    data_dir: str
    transport: Literal["stdio", "unix", "tcp", "memory"]
    clients: int
    sessions: SessionCounts
    memory_bytes: int
    idle_exit_seconds: float


class DaemonStopParams(WireStruct):
    """With `ifIdle` it stops only where nobody else is connected and nothing goes on."""

    if_idle: bool = False


class DaemonStopResult(WireStruct):
    """Whether it stops; `why` says what keeps it."""

    stopping: bool
    clients: int
    running: int
    why: str = ""
