"""The person's `config.toml`: what it may say and what is meant where it says nothing.

Owns its tables, keys and defaults. Refuses to know when the file is read and who obeys it.
A table that belongs to a capability still to come does not break the file, for it is one file
for everything and every agent needs it; it is a notice instead, so that nobody believes it works.
A table or key that no version knows is a slip, and an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from treadle.agents import checks, compaction_keys
from treadle.agents.compaction_keys import CompactionKeys
from treadle.agents.servers import declarations
from treadle.errors import ConfigurationError, InvalidAgent
from treadle.mcp.declaration import ServerDeclaration
from treadle.models.spec import DEFAULT_TIMEOUT_SECONDS
from treadle.secrets import SECRET_CHARACTERS, too_short
from treadle.tools.web.backend import PLACEHOLDER, Method, SearchBackend
from treadle.tools.web.errors import WebError
from treadle.tools.web.url import parse_url
from treadle.turn.retry import DEFAULT_MAX_RETRIES

# Room for every setting and for more MCP servers than anybody runs: one takes some 300 bytes.
LIMIT_BYTES = 64 * 1024

# The parser's memory grows with the square of a dotted key's length, which is a line's at most:
# 64 KiB of `a.a.a` would take 4 GB, lines with so many dots less than a hundred MB together.
MOST_DOTS = 500

# With the longest waits these take minutes; who waits longer is better told that nothing works.
MOST_RETRIES = 10

# A century, and more threads than a folder holds well: beyond that it is a slip of the finger.
MOST_DAYS = 36_500

# A terabyte: whoever means more means no bound.
MOST_MEGABYTES = 1 << 20
MOST_THREADS = 10_000_000

Durability: TypeAlias = Literal["file", "memory"]

CONFIG_NAME = "config.toml"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The model of every agent that names none of its own, and how all models are called."""

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How sessions are kept.

    Args:
        idle_seconds: an open session that did nothing for so long is dropped from memory.
        turns_in_flight: turns that run at once; more would make providers slow everyone down.
        durability: whether threads are files or live only as long as the daemon.
        queued_prompts: prompts that wait in one session; one more is refused.
        queued_prompts_overall: prompts that run or wait in all sessions.
        queued_megabytes: what those may hold in memory.
        open_sessions: sessions that are open at once.
        held_sessions: those of them that rest and keep their thread in memory.
        memory_megabytes: where the process takes more, sessions that rest are let go, and while
            that does not help, prompts are refused; 0 for no such bound.
    """

    idle_seconds: float = 1800.0
    turns_in_flight: int = 8
    durability: Durability = "file"
    queued_prompts: int = 1000
    queued_prompts_overall: int = 10_000
    queued_megabytes: int = 256
    open_sessions: int = 10_000
    held_sessions: int = 256
    memory_megabytes: int = 4096


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """How long threads are kept; where a figure is missing, nothing expires by it.

    Args:
        days: a thread that was not written for so long expires.
        threads: how many are kept, those written last.
    """

    days: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """How a shared daemon lives.

    Args:
        idle_exit_seconds: after so long without clients and turns it ends; 0 for never.
    """

    idle_exit_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """What is secret beside the keys of models: the values of these environment variables."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file.

    Args:
        notices: what the file says in vain.
        search: who is asked for search results; None where nobody is.
        mcp_servers: the MCP servers that agents may name.
        daemon: how a shared daemon lives.
        compaction: how conversations are compacted, where an agent says nothing of it.
    """

    models: ModelSettings = field(default_factory=ModelSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    secrets: SecretSettings = field(default_factory=SecretSettings)
    notices: tuple[str, ...] = ()
    search: SearchBackend | None = None
    mcp_servers: tuple[ServerDeclaration, ...] = ()
    compaction: CompactionKeys = field(default_factory=CompactionKeys)
    daemon: DaemonSettings = field(default_factory=DaemonSettings)


def parse_config(path: Path, data: bytes) -> Config:
    """Read `config.toml`.

    Args:
        path: where it lies, for errors.
        data: what it holds.

    Raises:
        InvalidAgent: no agent can be run by it; the message names the key and what is valid.
    """
    import tomllib

    try:
        if len(data) > LIMIT_BYTES:
            raise ValueError(f"it is larger than {LIMIT_BYTES // 1024} KiB")
        if max(line.count(b".") for line in data.split(b"\n")) > MOST_DOTS:
            raise ValueError(f"a line has more than {MOST_DOTS} dots; split it")
        return _config(tomllib.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise _broken(path, "it is not UTF-8; save it as UTF-8") from error
    except RecursionError as error:
        raise _broken(path, "it is nested too deeply") from error
    except ValueError as error:
        raise _broken(path, str(error)) from error


_TABLES: dict[str, dict[str, checks.Check]] = {
    "models": {
        "model": checks.line,
        "base_url": checks.url,
        "api_key_env": checks.variable,
        "timeout_seconds": checks.seconds,
        "max_retries": checks.whole(0, MOST_RETRIES),
    },
    "sessions": {
        "idle_seconds": checks.seconds,
        "turns_in_flight": checks.count,
        "queued_prompts": checks.count,
        "queued_prompts_overall": checks.count,
        "queued_megabytes": checks.count,
        "open_sessions": checks.count,
        "held_sessions": checks.count,
        "memory_megabytes": checks.whole(0, MOST_MEGABYTES),
        "durability": checks.choice(*get_args(Durability)),
    },
    "retention": {
        "days": checks.whole(1, MOST_DAYS),
        "threads": checks.whole(1, MOST_THREADS),
    },
    "daemon": {"idle_exit_seconds": checks.seconds_or_none},
    "secrets": {"names": checks.variables},
    "search": {
        "url": checks.url,
        "method": checks.choice(*get_args(Method)),
        "api_key_env": checks.variable,
        "header": checks.header,
    },
    "compaction": compaction_keys.KEYS,
}

# The table whose keys are names of a person's own choice.
_SERVERS = "mcp_servers"


def _broken(path: Path, problem: str) -> InvalidAgent:
    return InvalidAgent(f"{path.name}: {problem}", path=str(path))


def _config(tables: dict[str, Any]) -> Config:
    """Check every table.

    Raises:
        ValueError: one cannot be as it stands.
    """
    for name in tables:
        if name not in _TABLES and name != _SERVERS:
            raise ValueError(checks.unknown_key(name, (*_TABLES, _SERVERS)))
    secrets = SecretSettings(**_checked(tables, "secrets"))
    return Config(
        ModelSettings(**_checked(tables, "models")),
        SessionSettings(**_checked(tables, "sessions")),
        RetentionSettings(**_checked(tables, "retention")),
        secrets,
        tuple(map(_too_short, too_short(secrets.names))),
        _search(_checked(tables, "search")),
        _servers(tables.get(_SERVERS, {})),
        _compaction(_checked(tables, "compaction")),
        DaemonSettings(**_checked(tables, "daemon")),
    )


def _compaction(said: dict[str, Any]) -> CompactionKeys:
    """Take what the table says, if that can be so.

    Raises:
        ValueError: its keys contradict each other.
    """
    keys = CompactionKeys(said)
    try:
        keys.over(CompactionKeys())
    except ConfigurationError as error:
        raise ValueError(f"[compaction] {error.message}") from error
    return keys


def _servers(tables: Any) -> tuple[ServerDeclaration, ...]:
    """Take the tables of MCP servers.

    Raises:
        ValueError: one cannot be as it stands.
    """
    if not isinstance(tables, dict):
        raise ValueError(f"{_SERVERS} must be tables, a line [{_SERVERS}.NAME] before each")
    try:
        return declarations(tables)
    except ValueError as error:
        raise ValueError(f"[{_SERVERS}] {error}") from error


def _search(table: dict[str, Any]) -> SearchBackend | None:
    """Make a backend of its table; none where there is no table, or nothing in it.

    Raises:
        ValueError: it can never be asked.
    """
    if not table:
        return None
    if "url" not in table:
        raise ValueError("[search] needs url, the address of a search backend")
    backend = SearchBackend(**table)
    if (PLACEHOLDER in backend.url) != (backend.method == "GET"):
        raise ValueError(
            f"[search] url must hold {PLACEHOLDER} where the words go; "
            'with method = "POST" they go into the body, and url holds none'
        )
    try:
        parse_url(backend.url.replace(PLACEHOLDER, ""))
    except WebError as error:
        raise ValueError(f"[search] url cannot be asked: {error}") from error
    return backend


def _too_short(name: str) -> str:
    return (
        f"[secrets] {name} has a value of fewer than {SECRET_CHARACTERS} characters, which may be "
        "part of any text, so it is not hidden; take a longer one"
    )


def _checked(tables: dict[str, Any], name: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ValueError(f"{name} must be a table, a line [{name}] with its keys below")
    known = _TABLES[name]
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"[{name}] {checks.unknown_key(key, known)}")
        try:
            table[key] = known[key](value)
        except ValueError as error:
            raise ValueError(f"[{name}] {key} {error}") from error
    return table
