"""An MCP server as an agent's file or the person's configuration declares it.

Owns the fields, their defaults and what they mean. Refuses to know where they are written, how
they are checked, and what becomes of them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

Transport: TypeAlias = Literal["stdio", "http", "sse"]
Scope: TypeAlias = Literal["session", "agent"]
Begin: TypeAlias = Literal["lazy", "eager"]

# A package runner that fetches the server first takes some of it on a slow line.
START_SECONDS = 60.0
# What any other tool may take; a server that is known to take longer says so.
CALL_SECONDS = 120.0
# The length of each rung of the ladder that stops it; a daemon's shutdown has room for two.
STOP_SECONDS = 1.0
MOST_STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ServerDeclaration:
    """One server; it has either a `command` or a `url`.

    `command`, `args`, `env`, `cwd`, `url` and `headers` may hold `${NAME}` and `${NAME:-else}`,
    which become the daemon's own variables whenever the server is started (`expansion`).

    Args:
        name: what its tools' names begin with.
        command: the program that is the server.
        args: the program's arguments; no shell reads them.
        env: variables beside the few that every child gets, by name.
        cwd: the folder that it runs in; the session's where absent.
        url: where it is, if it is not a program of ours.
        headers: what each request to the url carries, by name.
        token_env: the variable whose value each request carries as a bearer token.
        transport: how it is spoken with.
        tools: the names, as the server has them, of the only tools that are taken from it;
            a `*` in a name stands for anything. None for all. It permits nothing.
        scope: whether each session has one of its own, or all of the agent's share one.
        begin: whether it starts with the first turn that may need it, or when a session opens.
        start_seconds: how long it may take until its tools are known.
        call_seconds: how long one call may take.
        stop_seconds: how long each rung of its stop may take: end of input, TERM.
        sampling: whether it may have the agent's model answer something, counted against the
            turn whose call it is.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    token_env: str | None = None
    transport: Transport = "stdio"
    tools: tuple[str, ...] | None = None
    scope: Scope = "session"
    begin: Begin = "lazy"
    start_seconds: float = START_SECONDS
    call_seconds: float = CALL_SECONDS
    stop_seconds: float = STOP_SECONDS
    sampling: bool = False

    def takes(self, tool: str) -> bool:
        """Tell whether a tool is taken from it, by the name that the server has for it."""
        return self.tools is None or any(_fits(tool, pattern) for pattern in self.tools)

    @property
    def fingerprint(self) -> str:
        """Name it by what it is: the same for the same server, whoever declares it."""
        told = repr([(each.name, getattr(self, each.name)) for each in fields(self)])
        return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:32]


def _fits(tool: str, pattern: str) -> bool:
    """Tell whether a name is one that a pattern means; nothing but `*` is special in it."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), tool, re.DOTALL) is not None
