"""The shared daemon: one runtime, any number of clients, from the first one to a bounded end.

Owns who is connected, and when the daemon ends by itself. Refuses to know what clients say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from treadle.errors import ConfigurationError, Overloaded, TreadleError
from treadle.folders import Folders
from treadle.rendezvous.address import Address, address_of, uses_tcp
from treadle.rendezvous.environment import digests
from treadle.rendezvous.holding import Held, hold
from treadle.rendezvous.printed import bound_printed
from treadle.rendezvous.told import read_told, remove_told, write_told
from treadle.runtime.descriptors import raise_limit
from treadle.server.asides import Asides
from treadle.server.ending import LOST_CODE, catch_signals, exit_surely
from treadle.server.home import Home
from treadle.server.link import Link, step
from treadle.server.listen import (
    Listening,
    is_ours,
    is_token,
    listen_at,
    listen_on_loopback,
)
from treadle.server.running import Running
from treadle.server.wire.carrier import Carrier, Told
from treadle.server.wire.envelope import encode_error
from treadle.server.wire.framing import encode_frame
from treadle.server.wire.socket import SocketCarrier
from treadle.version import __version__

logger = logging.getLogger(__name__)

# Each client costs a descriptor, and a process has 1,024 of them where nobody has raised that.
MAX_CLIENTS = 512

# So many more may come and ask how the daemon is doing, or end it; all else is refused to them.
SPARE_CLIENTS = 16

# When a client that was refused may look again: clients come and go by the second.
FULL_SECONDS = 5.0

# Another daemon that is on its way out has let its clients and sessions go by then.
TAKE_OVER_SECONDS = 12.0

# How often it is looked whether that other one is gone.
LOOK_SECONDS = 0.05

# Whoever found the socket before it was hidden has connected by then.
LAST_CALL_SECONDS = 0.1

# Reading `config.toml` loads a good part of the house, which the first client is not to wait for.
FIRST_LOOK_SECONDS = 0.5

# Where nothing happens, it is looked now and then whether that has been so for long enough.
MOST_SECONDS_BETWEEN_LOOKS = 60.0

# What is asked for by `idle_exit_seconds` is met to a quarter.
LOOKS_IN_THE_TIME = 4

# Connections that end with the daemon end side by side, within the bounds of each.
CLIENTS_SECONDS = 8.0


def serve_socket(folders: Folders) -> int:
    """Serve every client of this person and data folder, until stopped or idle for long.

    Args:
        folders: where configuration, data and cache lie.

    Returns:
        The exit code: 0, and 74 where something that was said is lost, which the log names.

    Raises:
        ConfigurationError: another daemon serves that data folder.
        RequestFailed: the place for the socket is not safe.
        OSError: the socket cannot be made.
    """
    # Resolved once, as the address is: a link that leads elsewhere later leads nobody astray.
    folders = replace(folders, data=folders.data.resolve())
    return asyncio.run(_Shared(folders, address_of(str(folders.data))).run())


class _Shared:
    def __init__(self, folders: Folders, address: Address) -> None:
        self._folders = folders
        self._address = address
        self._running = Running(folders)
        self._links: set[Link] = set()
        self._leaving = Asides()
        self._is_ending_softly = False
        self._idle_exit_seconds = 0.0  # until `config.toml` was read
        self._home = Home(
            "tcp" if uses_tcp() else "unix",
            clients=lambda: len(self._links),
            idle_exit_seconds=lambda: self._idle_exit_seconds,
            stop=self._stop,
        )

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        catch_signals(loop, lambda: self._end("a signal came"))
        # Held until all is closed, so that no other daemon begins before this one is gone.
        held = await _take_over(self._address)
        raise_limit()
        try:
            listening = self._listen()
            server = await loop.create_server(self._carrier(listening), sock=listening.socket)
            self._idling = asyncio.create_task(self._watch_idleness())
            await self._ended
            began = loop.time()
            self._idling.cancel()
            self._hide()
            server.close()
            await self._close()
            code = LOST_CODE if self._running.has_lost() else 0
            logger.info("ended with code %d after %.3f s of closing", code, loop.time() - began)
            exit_surely(code)
            return code
        finally:
            held.release()

    def _listen(self) -> Listening:
        """Listen, and tell of it first, so that whoever has connected can read what we are."""
        remove_told(self._address)
        if uses_tcp():
            listening = listen_on_loopback()
            self._tell(listening.port, listening.token)
            return listening
        self._tell()
        return listen_at(Path(self._address.socket))

    def _carrier(self, listening: Listening) -> Callable[[], SocketCarrier]:
        token = listening.token
        if token is None:
            return lambda: SocketCarrier(self._let_in)
        return lambda: SocketCarrier(self._let_in, lambda line: is_token(line, token))

    def _tell(self, port: int | None = None, token: str | None = None) -> None:
        write_told(
            self._address,
            version=__version__,
            environment=digests(str(self._folders.config)),
            started_at=self._home.began_at,
            port=port,
            token=token,
        )
        logger.info("serving at %s", self._address.socket)

    def _let_in(self, carrier: SocketCarrier) -> bool:
        """Make a link of whoever has connected, if there is room."""
        if not (self._home.transport == "tcp" or is_ours(carrier.socket)):
            return False
        if len(self._links) >= MAX_CLIENTS + SPARE_CLIENTS:
            carrier.write(encode_frame(encode_error(None, _full())))
            return False

        def carry(told: Told) -> Carrier:
            carrier.told = told
            return carrier

        link = Link(
            self._folders,
            self._running.open,
            carry,
            home=self._home,
            refusal=_full() if len(self._links) >= MAX_CLIENTS else None,
            on_shutdown=_nothing,
            on_end=lambda _: self._let_go(link),
        )
        self._links.add(link)
        link.start()
        return True

    def _let_go(self, link: Link) -> None:
        """Close a client's connection; what it began goes on."""
        self._links.discard(link)
        self._leaving.start(link.close())

    def _stop(self, softly: bool) -> None:
        if softly:
            self._leaving.start(self._end_softly("asked to stop, and nothing goes on"))
        else:
            # Behind the reply of whoever asked.
            asyncio.get_running_loop().call_soon(self._end, "asked to stop")

    async def _end_softly(self, why: str) -> None:
        """End unless somebody comes in the last moment."""
        if self._is_ending_softly:
            return
        self._is_ending_softly = True
        try:
            if not await self._is_called_at_last():
                self._end(why)
        finally:
            self._is_ending_softly = False

    async def _is_called_at_last(self) -> bool:
        """Hide, and wait whether anybody who had found us before is still coming."""
        clients = set(self._links)
        hidden = f"{self._door}.closing"
        if _has_renamed(self._door, hidden):
            await asyncio.sleep(LAST_CALL_SECONDS)
            is_wanted = self._links - clients or self._running.goes_on
            if is_wanted and _has_renamed(hidden, self._door):
                return True
            _unlink(hidden)
        return False

    @property
    def _door(self) -> str:
        """The file by which we are found."""
        return self._address.told if uses_tcp() else self._address.socket

    def _end(self, why: str) -> None:
        if not self._ended.done():
            logger.info("ending: %s", why)
            self._ended.set_result(None)

    async def _watch_idleness(self) -> None:
        """End the daemon once it had neither clients nor anything to do for long."""
        loop = asyncio.get_running_loop()
        busy_at = loop.time()
        await asyncio.sleep(FIRST_LOOK_SECONDS)
        while True:
            seconds = self._idle_exit_seconds = await self._idle_exit()
            looks = seconds / LOOKS_IN_THE_TIME if seconds else MOST_SECONDS_BETWEEN_LOOKS
            await asyncio.sleep(min(looks, MOST_SECONDS_BETWEEN_LOOKS))
            bound_printed(self._address.stderr)
            if not seconds or self._links or self._running.goes_on:
                busy_at = loop.time()
            elif loop.time() - busy_at >= seconds:
                await self._end_softly(f"no clients and nothing to do for {seconds:g} s")
                busy_at = loop.time()

    async def _idle_exit(self) -> float:
        """Read the figure of `config.toml`; one that is broken changes nothing."""
        catalogue = self._running.open().services.catalogue
        try:
            return (await asyncio.to_thread(catalogue.config)).daemon.idle_exit_seconds
        except TreadleError:
            return self._idle_exit_seconds

    def _hide(self) -> None:
        """Let nobody find us any more."""
        remove_told(self._address)
        for door in (self._address.socket, f"{self._door}.closing"):
            _unlink(door)

    async def _close(self) -> None:
        """Go down the ladder; a step that fails or hangs keeps nobody from the next."""
        for link in self._links:
            link.stop_hearing()
        await self._running.close_in_time()
        closing = asyncio.gather(*(link.close() for link in self._links))
        await step("the connections", _quietly(closing), CLIENTS_SECONDS)
        await self._leaving.close(CLIENTS_SECONDS)


def _has_renamed(path: str, into: str) -> bool:
    """Rename a file; return whether it was there to be renamed."""
    try:
        Path(path).rename(into)
    except OSError:
        return False
    return True


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        Path(path).unlink()


def _full() -> Overloaded:
    told = f"{MAX_CLIENTS} clients are connected; close some of them"
    return Overloaded(told, retry_after_seconds=FULL_SECONDS)


async def _nothing() -> None:
    """What `shutdown` means to a daemon with other clients."""


async def _quietly(closing: Awaitable[object]) -> None:
    await closing


async def _take_over(address: Address) -> Held:
    """Take the lock of the daemon's place; one that is on its way out is waited for.

    Raises:
        ConfigurationError: another daemon serves there.
    """
    until = time.monotonic() + TAKE_OVER_SECONDS
    while (held := hold(address.lock)) is None:
        told = read_told(address)
        if told is not None or time.monotonic() > until:
            raise ConfigurationError(
                f"another daemon (pid {told.pid if told else 'unknown'}) serves this data folder; "
                "use it by `treadle connect`, or end it by `treadle daemon stop`"
            )
        await asyncio.sleep(LOOK_SECONDS)
    return held
