"""`treadle connect`: a bridge between standard input and output and the shared daemon.

Owns that bytes pass both ways, unchanged and no faster than they are taken, and how it ends.
Refuses to know what they say. Light, because an editor waits for it: the standard library alone,
and of that as little as can be.
"""

from __future__ import annotations

import _thread
import os
import select
import socket
import sys
import time

from treadle.cli.exit_codes import FAILED, INTERRUPTED, OK, UNREACHABLE
from treadle.rendezvous.reaching import Reached, reach

STDIN, STDOUT = 0, 1

# A pipe holds this much on Linux.
READ_BYTES = 64 << 10

# A process that dies lets go of one thing after the other: of its sockets, then of its lock, and
# fifty bridges that wake up in between may be quicker.
DEATH_SECONDS = 0.2

# A client that has said its last waits for this end, and as a rule the daemon has just closed.
CLOSED_SECONDS = 0.02

# How often it is looked whether the lock is free.
LOOK_SECONDS = 0.005


def connect(arguments: list[str]) -> int:
    """Bridge to the shared daemon until either side ends; return the exit code of a failure."""
    options = _options(arguments)
    from treadle.places import data_folder

    try:
        data = data_folder(options.get("data_dir"))
        reached = reach(data, options.get("config_dir"), log_level=options.get("log_level"))
    except (ValueError, OSError) as error:
        return _fail(str(error))
    except Exception as error:
        if not hasattr(error, "reason"):
            raise
        return _fail(str(error))
    if reached.differing:
        _say(
            f"the shared daemon was started with other settings ({', '.join(reached.differing)}) "
            "and is at work; `treadle daemon restart` gives it yours"
        )
    code = _Bridge(reached, data).run()
    # At once, although a thread waits for input that nobody may ever give.
    os._exit(code)


class _Bridge:
    """The two directions: what the client says in a thread of its own, the answers in this one."""

    def __init__(self, reached: Reached, data: str) -> None:
        self._daemon = reached.connected
        self._told = reached.told
        self._data = data
        self._client_has_ended = False

    def run(self) -> int:
        _thread.start_new_thread(self._relay_client, ())
        try:
            while self._client_listens() and (data := self._daemon.recv(READ_BYTES)):
                _write(STDOUT, data)
        except BrokenPipeError:
            return OK  # the client does not listen any more
        except KeyboardInterrupt:
            return INTERRUPTED
        except OSError:
            pass  # a connection that was reset has ended as well
        if not self._client_listens() or not self._daemon_has_gone():
            return OK
        pid = self._told.pid if self._told else "unknown"
        return _fail(
            f"the shared daemon (pid {pid}) has ended; what was said is in its threads, and "
            "`treadle connect` starts it anew",
            UNREACHABLE,
        )

    def _relay_client(self) -> None:
        try:
            while data := _read(STDIN):
                self._daemon.sendall(data)
            self._client_has_ended = True
            self._daemon.shutdown(socket.SHUT_WR)
        except OSError:
            # Where the daemon is gone the other direction sees that too, and tells of it.
            return

    def _client_listens(self) -> bool:
        """Wait until the daemon says something or ends; False once nobody takes it any more.

        Where the system cannot tell, the next write does.
        """
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(self._daemon.fileno(), select.POLLIN)
        poll.register(STDOUT, 0)
        return all(descriptor != STDOUT for descriptor, _ in poll.poll())

    def _daemon_has_gone(self) -> bool:
        """Whether the daemon itself is gone, and did not just let go of this client.

        A client that has ended hears of a daemon that was killed, and not of one that ended in
        order: that is what a client gets that asked for it.
        """
        from treadle.rendezvous.address import address_of
        from treadle.rendezvous.holding import is_held
        from treadle.rendezvous.told import read_told

        address = address_of(self._data)
        began = time.monotonic()
        while True:
            told = read_told(address)
            if self._told is None or told is None or told.pid != self._told.pid:
                return not self._client_has_ended
            if not is_held(address.lock):
                return True
            bound = CLOSED_SECONDS if self._client_has_ended else DEATH_SECONDS
            if time.monotonic() - began > bound:
                return False
            time.sleep(LOOK_SECONDS)


def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            # A parent may share a descriptor that does not block.
            select.select([descriptor], [], [])


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def _options(arguments: list[str]) -> dict[str, str]:
    if not arguments:
        return {}
    import argparse

    parser = argparse.ArgumentParser(
        prog="treadle connect",
        description="Speak JSON-RPC 2.0 with the shared daemon on standard input and output; "
        "it is started where there is none, and goes on when this ends.",
    )
    parser.add_argument("--data-dir", help="where threads lie (else $TREADLE_DATA_DIR)")
    parser.add_argument(
        "--config-dir", help="where agents/ and config.toml lie (else $TREADLE_CONFIG_DIR)"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="how much a daemon that is started here logs",
    )
    parser.add_argument(
        "--stdio", action="store_true", help="what is done anyway; editors say it out of habit"
    )
    return {name: value for name, value in vars(parser.parse_args(arguments)).items() if value}


def _fail(message: str, code: int = FAILED) -> int:
    _say(message)
    return code


def _say(message: str) -> None:
    try:
        sys.stderr.write(f"treadle connect: {message}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # nobody can be told
