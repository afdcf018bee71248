"""`treadle daemon`: the shared daemon, as a person sees and ends it.

Refuses to know how it is found and started (`rendezvous`), and what it says of itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, tell, to_json
from treadle.errors import DaemonFailed, NoDaemon
from treadle.folders import find_folders
from treadle.rendezvous.address import Address, address_of, uses_tcp
from treadle.rendezvous.asking import NoAnswer, ask
from treadle.rendezvous.calling import call
from treadle.rendezvous.holding import is_held, is_held_by
from treadle.rendezvous.reaching import reach, wait_until_gone
from treadle.rendezvous.told import read_told
from treadle.server.log.file import FILE_NAME

app = typer.Typer(
    no_args_is_help=True,
    help="The shared daemon, which `chat`, `prompt` and `connect` start when they need it.",
)

# A killed process is gone as soon as its system has let go of what it held.
KILLED_SECONDS = 5.0

# How often a log that is followed is looked at.
FOLLOW_SECONDS = 0.2

IfIdleOption = Annotated[
    bool, typer.Option("--if-idle", help="Only if nobody else uses it and nothing goes on.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Kill it if it does not end in order; threads are safe.")
]


@app.command("status")
def status(as_json: JsonOption = False) -> None:
    """Show the shared daemon: its process, clients, sessions and memory; exit code 1 if none."""
    address = _address()
    told = _ask(address, "daemon/status", {})
    told["socket"] = _where(address)
    told["log"] = str(_log())
    told["printed"] = address.stderr
    if as_json:
        print(to_json(told))
        return
    sessions = told["sessions"]
    began = datetime.fromisoformat(told["startedAt"])
    up = datetime.now(UTC) - began
    say(f"pid {told['pid']}, Treadle {told['version']}, up {str(up).partition('.')[0]}")
    say(
        f"{told['clients'] - 1} clients, {sessions['open']} sessions open, "
        f"{sessions['running']} at work, {sessions['queued']} prompts waiting"
    )
    say(f"{told['memoryBytes'] / 2**20:.0f} MiB, threads in {told['dataDir']}")
    say(f"at {told['socket']}, log {told['log']}, printed {told['printed']}")


@app.command("stop")
def stop(if_idle: IfIdleOption = False, force: ForceOption = False) -> None:
    """End the shared daemon: running turns are interrupted, MCP servers and commands ended."""
    _stop(_address(), if_idle=if_idle, force=force)
    say("the shared daemon has ended")


@app.command("restart")
def restart(if_idle: IfIdleOption = False, force: ForceOption = False) -> None:
    """End the shared daemon and start it anew, with the environment of this very terminal."""
    address = _address()
    if is_held(address.lock):
        _stop(address, if_idle=if_idle, force=force)
    folders = find_folders()
    reached = reach(str(folders.data), str(folders.config))
    reached.connected.close()
    say(f"the shared daemon runs (pid {reached.told.pid if reached.told else 'unknown'})")


@app.command("logs")
def logs(
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many, from the end.")
    ] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Print the end of the log, which all daemons of yours share; it never holds what was said."""
    path = _log()
    if not path.exists():
        tell(f"treadle: no log yet at {path}")
        raise typer.Exit(exit_codes.FAILED)
    for text in _tail(path, lines):
        say(text)
    if follow:
        for text in _further(path):
            say(text)


def _where(address: Address) -> str:
    """Return what a client connects to."""
    if not uses_tcp():
        return address.socket
    told = read_told(address)
    return f"127.0.0.1:{told.port if told else '?'}"


def _address() -> Address:
    return address_of(str(find_folders().data))


def _log() -> Path:
    return find_folders().logs / FILE_NAME


def _ask(address: Address, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the daemon that runs.

    Raises:
        NoDaemon: there is none.
        DaemonFailed: it does not answer.
    """
    connected = call(address)
    if connected is None:
        raise NoDaemon(f"no shared daemon runs for {find_folders().data}")
    with connected:
        try:
            answer: dict[str, Any] = ask(connected, method, params)
        except NoAnswer as error:
            raise DaemonFailed(
                f"the shared daemon does not answer ({error}); "
                "`treadle daemon stop --force` ends it, threads are safe"
            ) from error
    return answer


def _stop(address: Address, *, if_idle: bool, force: bool) -> None:
    """Stop the daemon and wait until it has let go of everything.

    Raises:
        NoDaemon: there is none.
        DaemonFailed: it does not end.
    """
    try:
        answer = _ask(address, "daemon/stop", {"ifIdle": if_idle})
        if not answer["stopping"]:
            tell(f"treadle: it goes on: {answer['why']}")
            raise typer.Exit(exit_codes.FAILED)
    except NoDaemon:
        if not is_held(address.lock):
            raise  # else it is about to end, and takes nobody any more
    except DaemonFailed:
        if not force:
            raise
    else:
        if wait_until_gone(address):
            return
    if not force:
        if wait_until_gone(address):
            return
        raise DaemonFailed("the shared daemon has not ended yet; --force kills it")
    _kill(address)


def _kill(address: Address) -> None:
    """Kill the daemon; its reaper ends what it had started.

    Raises:
        DaemonFailed: it cannot be told which process that is, or the process stays.
    """
    told = read_told(address)
    if not is_held(address.lock):
        return
    if told is None or not is_held_by(address.lock, told.pid):
        raise DaemonFailed("a shared daemon is there and does not tell which process it is")
    os.kill(told.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    if not wait_until_gone(address, KILLED_SECONDS):
        raise DaemonFailed(f"process {told.pid} was killed and is still there")


def _tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a log, whose size has a bound."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return text.splitlines()[-lines:] if lines else []


def _further(path: Path) -> Iterator[str]:
    """Yield the lines that are added to a log from now on, also over a rotation."""
    log = path.open(encoding="utf-8", errors="replace")
    log.seek(0, os.SEEK_END)
    rest = ""
    while True:
        rest += log.read()
        *whole, rest = rest.split("\n")
        yield from whole
        if not whole:
            time.sleep(FOLLOW_SECONDS)
            if path.exists() and not os.path.samestat(os.fstat(log.fileno()), path.stat()):
                log.close()
                log, rest = path.open(encoding="utf-8", errors="replace"), ""
