"""The embedded model's process, as whoever runs a turn sees it: there when it is needed.

Owns when it starts and stops. Refuses to know what is asked of it, and how a process is ended:
`process/` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import ModelUnreachable, NoModel
from treadle.models.embedded.child import KEY_VARIABLE
from treadle.models.embedded.files import EMBEDDED_FILE, OR_AN_ENDPOINT, model_path
from treadle.process.child import Child, to_the_end

# What it can keep in mind; more would cost memory for answers that are no better.
CONTEXT_TOKENS = 8192

# It loads in a second or two, from a slow disk in ten.
START_SECONDS = 60.0

# Somebody who is still talking comes back within this; 700 MB are free after it.
IDLE_SECONDS = 300.0

# A process whose sockets have closed is reaped within milliseconds.
DEATH_SECONDS = 1.0

# What the runtime may need of our environment. Its own variables (LLAMA_ARG_…) would change
# settings behind our back, and keys are none of its business.
_ENVIRONMENT = (
    "DYLD_LIBRARY_PATH",
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "USERPROFILE",
)

# For failures that nobody foresaw.
_TRY_AGAIN = "try again; if it stays so, run `treadle model pull`, which checks the file"

Command = Callable[[Path], Sequence[str]]
"""Return the arguments that serve a model file; the process obeys the contract of `child`."""


def serve_command(model: Path) -> list[str]:
    """Return the command of the real process; `-P` keeps the current folder's modules out."""
    module = "treadle.models.embedded.child"
    context = str(CONTEXT_TOKENS)
    return [sys.executable, "-P", "-m", module, "--model", str(model), "--context", context]


@dataclass(frozen=True, slots=True)
class Running:
    """A process that answers, and how it is reached."""

    child: Child
    base_url: str
    api_key: str

    async def has_died(self) -> bool:
        """Tell whether the process is gone, shortly after something went wrong with it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEATH_SECONDS):
                await self.child.wait()
        return self.child.exit_code is not None

    async def unreachable(self) -> ModelUnreachable:
        """Return the error for a turn in which the process ended."""
        end = await self.child.stop()
        return ModelUnreachable(
            f"the embedded model's process ended in the middle of the turn (exit code "
            f"{end.exit_code}){_complaint(self.child)}; ask again, and it is started anew"
        )


class EmbeddedServer:
    """At most one process, shared by every session; belongs to one event loop.

    Args:
        cache: Treadle's cache folder, where the model file lies.
        command: what to start, else the real process.
        idle_seconds: how long it may stand unused.
    """

    def __init__(
        self,
        cache: Path,
        *,
        command: Command = serve_command,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._cache = cache
        self._command = command
        self._idle_seconds = idle_seconds
        self._starting: asyncio.Task[Running] | None = None
        self._idling: asyncio.Task[None] | None = None
        self._users = 0

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Running]:
        """Have the process running for as long as the context lasts.

        Raises:
            NoModel: it cannot run here; `how` says what to do.
        """
        self._users += 1
        try:
            await self._stay()
            yield await self._running()
        finally:
            self._users -= 1
            if self._users == 0 and self._starting is not None and not _is_over(self._starting):
                self._idling = asyncio.create_task(self._stop_when_idle())

    async def close(self) -> None:
        """Stop the process; a later turn would start it anew."""
        await self._stay()
        await self._stop()

    async def _stay(self) -> None:
        """End the wait for idleness; a stop that it has begun is finished first."""
        idling, self._idling = self._idling, None
        if idling is not None:
            idling.cancel()
            await asyncio.wait({idling})

    async def _running(self) -> Running:
        """Return the process, started by whoever asks first; the others wait for the same one."""
        if self._starting is not None and _is_over(self._starting):
            await self._stop()
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        # A turn that is cancelled while it waits leaves the start to the others.
        return await asyncio.shield(self._starting)

    async def _start(self) -> Running:
        path = await asyncio.to_thread(model_path, self._cache)
        if path is None:
            raise NoModel(
                "no model is configured, and the embedded one is not on this machine yet",
                how=f"run `treadle model pull` ({EMBEDDED_FILE.size}, once); {OR_AN_ENDPOINT}",
            )
        key = secrets.token_urlsafe(24)
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        env = kept | {KEY_VARIABLE: key}
        try:
            child = await Child.start(self._command(path), env=env)
        except OSError as error:
            raise _cannot_run(f"its process cannot be started ({error})") from error
        try:
            return Running(child, await _first_words(child), key)
        except BaseException:
            await child.stop()
            raise

    async def _stop_when_idle(self) -> None:
        await asyncio.sleep(self._idle_seconds)
        await self._stop()

    async def _stop(self) -> None:
        """Forget the process at once, and end it whatever becomes of the caller."""
        starting, self._starting = self._starting, None
        if starting is not None:
            await to_the_end(asyncio.create_task(_end(starting)))


async def _end(starting: asyncio.Task[Running]) -> None:
    starting.cancel()  # nothing, once it has started
    await asyncio.wait({starting})
    if not starting.cancelled() and starting.exception() is None:
        await starting.result().child.stop()


def _is_over(starting: asyncio.Task[Running]) -> bool:
    """Tell whether a start has failed, or the process that it gave has ended."""
    if not starting.done():
        return False
    failed = starting.cancelled() or starting.exception() is not None
    return failed or starting.result().child.exit_code is not None


async def _first_words(child: Child) -> str:
    """Wait for the base URL.

    Raises:
        NoModel: it says why it cannot serve, says nothing, or ends.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await child.stdout.readline()
    except (TimeoutError, ValueError) as error:
        silent = isinstance(error, TimeoutError)
        what = f"said nothing for {START_SECONDS:.0f} s" if silent else "said too much"
        raise _cannot_run(f"its process {what}{_complaint(child)}") from error
    said = _decode(line)
    if "base_url" in said:
        return said["base_url"]
    if "error" in said:
        raise _cannot_run(said["error"], said.get("how", ""))
    await child.stop()
    raise _cannot_run(f"its process ended (exit code {child.exit_code}){_complaint(child)}")


def _decode(line: bytes) -> dict[str, str]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in said.items()} if isinstance(said, dict) else {}


def _cannot_run(why: str, how: str = "") -> NoModel:
    return NoModel(
        f"no model is configured, and the embedded one cannot run: {why}",
        how=f"{how or _TRY_AGAIN}; {OR_AN_ENDPOINT}",
    )


def _complaint(child: Child) -> str:
    lines = child.stderr_tail.strip().splitlines()
    return f": {lines[-1]}" if lines else ""
