"""A real terminal, and what a person sees in it: tmux, with one pane and a server of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from support.peers import require_program
from support.process import children_of, is_alive, until_dead
from support.waiting import PATIENCE_SECONDS, until_seen

# The chat as a person starts it, whatever is on PATH.
CHAT = (sys.executable, "-m", "treadle", "chat")


class Tmux:
    """One pane that runs one command; made by `tmux`."""

    def __init__(self, folder: Path) -> None:
        # The shortest of names: a socket's path may have some hundred bytes.
        self._socket = folder / "t"
        self._code = folder / "exit-code"
        self.pid = 0

    async def start(self, line: str, folder: Path, width: int, height: int) -> None:
        """Begin, with a shell that runs one command line; `pid` is then the command's."""
        self._code.unlink(missing_ok=True)
        # The shell waits until the pane is set up, and notes the code: tmux itself may miss it.
        noted = f"echo $? >{shlex.quote(str(self._code))}"
        script = f"trap : INT; read _; printf '\\033[H\\033[2J'; {line}; {noted}"
        self.run(
            *("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder)), script
        )
        for option in ("remain-on-exit on", "status off", "history-limit 20000"):
            self.run("set", "-g", *option.split())
        shell = int(self.run("display", "-p", "#{pane_pid}"))
        self.keys("Enter")
        await until_seen(lambda: bool(children_of(shell)) or self._code.exists())
        self.pid = next(iter(children_of(shell)), 0)

    def run(self, *words: str, text: str | None = None) -> str:
        """Give tmux a command of its own; return what it prints."""
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), "-f", os.devnull, *words],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            check=True,
            env={**os.environ, "SHELL": "/bin/sh"},
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self.run("send-keys", *keys)

    def type(self, text: str, *keys: str) -> None:
        """Type a text as it is, and then press keys."""
        self.run("send-keys", "-l", text)
        if keys:
            self.keys(*keys)

    def paste(self, text: str) -> None:
        """Paste a text, in brackets if the program asked for them."""
        self.run("load-buffer", "-", text=text)
        self.run("paste-buffer", "-p")

    def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        self.run("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *, history: bool = False, escapes: bool = False) -> str:
        """Return what is seen now, maybe with all that has scrolled away, maybe with colours."""
        words = ["-S", "-"] if history else []
        return self.run("capture-pane", "-p", *words, *(["-e"] if escapes else []))

    async def sees(self, *texts: str, history: bool = False) -> str:
        """Wait, within a bound, until the screen shows all of the texts; return it."""
        return await self.until(lambda screen: all(each in screen for each in texts), history)

    async def until(self, condition: Callable[[str], bool], history: bool = False) -> str:
        """Wait, within a bound, until what the screen shows makes the condition true."""
        shown = ""

        def holds() -> bool:
            nonlocal shown
            shown = self.screen(history=history)
            return condition(shown)

        try:
            await until_seen(holds)
        except TimeoutError:
            raise AssertionError(f"the screen never showed that; it shows:\n{shown}") from None
        return shown

    async def exit_code(self) -> int:
        """Wait, within a bound, until the command has ended; return its exit code."""
        await until_seen(lambda: self._code.exists() and bool(self._code.read_text()))
        return int(self._code.read_text())

    def end(self) -> None:
        """Take the terminal away."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("kill-server")


@contextlib.asynccontextmanager
async def tmux(
    *command: str,
    folder: Path,
    width: int = 80,
    height: int = 24,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Tmux]:
    """Run a command in a terminal of its own; both are gone at the end, whatever happened.

    Args:
        command: the command, such as `CHAT`.
        folder: where it runs, and where the terminal's socket lies.
        width: how many columns the terminal has.
        height: how many rows it has.
        env: variables beside those of this process.
    """
    require_program("tmux")
    terminal = Tmux(folder)
    variables = {"PYTHONUTF8": "1", **(env or {})}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    line = f"env {shlex.join(assignments)} {shlex.join(command)}"
    try:
        await terminal.start(line, folder, width, height)
        yield terminal
    finally:
        terminal.end()
        if terminal.pid and is_alive(terminal.pid):
            await until_dead(terminal.pid)
