"""The terminal as bytes: one write for each change, and a clear end when it is gone.

Owns what prompt_toolkit leaves open: a terminal that has died is an end of input and of output,
not an error at each key; bracketed paste stays on while the screen is redrawn. Refuses to know
what is written.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO, cast

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

# The variable of a terminal that cuts long lines when it gets narrower; others wrap them anew.
_NO_REFLOW_VARIABLE = "XTERM_VERSION"


def open_input() -> Input:
    """Return the keyboard."""
    keyboard = create_input()
    if sys.platform != "win32":
        _end_with_the_terminal(keyboard)
    return keyboard


def open_output(on_gone: Callable[[], None]) -> Output:
    """Return the screen.

    Args:
        on_gone: called when it takes nothing any more. Contract: must not raise.
    """
    if sys.platform == "win32":
        return create_output(stdout=sys.stdout)
    screen = Screen.from_pty(
        cast(TextIO, _Stream(sys.stdout, on_gone)),
        term=os.environ.get("TERM"),
        default_color_depth=ColorDepth.from_env(),  # none where NO_COLOR says so
    )
    # We draw below what was printed and need not know in which row that is.
    screen.enable_cpr = False
    return screen


@contextlib.contextmanager
def one_write(output: Output) -> Iterator[None]:
    """Send what is written meanwhile at once, so that nothing is seen half done."""
    if not isinstance(output, Screen):
        yield
        return
    output.held += 1
    try:
        yield
    finally:
        output.held -= 1
        output.flush()


def rewraps() -> bool:
    """Tell whether the terminal wraps long lines anew when it gets narrower, as most do."""
    # GNU screen cuts them too; tmux, which takes its name, wraps.
    is_screen = os.environ.get("TERM", "").startswith("screen") and "TMUX" not in os.environ
    return not is_screen and _NO_REFLOW_VARIABLE not in os.environ


class Screen(Vt100_Output):
    """An output that can be held back."""

    held = 0
    is_ending = False

    def flush(self) -> None:
        """Write what has gathered, unless it is held back."""
        if not self.held:
            super().flush()

    def erase_down(self) -> None:
        """Clear the rest of the screen from the start of a line, this line by itself.

        Where it is the screen's first, some terminals would move what is cleared at once into
        the scrollback.
        """
        self.write_raw("\x1b7\x1b[K\x1b[B\r\x1b[J\x1b8")

    def disable_bracketed_paste(self) -> None:
        """Do so only at the end: a paste may come while the screen is being redrawn."""
        if self.is_ending:
            super().disable_bracketed_paste()


class _Stream(io.TextIOBase):
    """Standard output, unbuffered, whose failure is told once and never raised."""

    def __init__(self, stream: TextIO, on_gone: Callable[[], None]) -> None:
        self._stream = stream
        self._on_gone = on_gone
        self._is_gone = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a plain attribute there
        return self._stream.encoding

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        data = memoryview(text.encode(self.encoding, "replace"))
        try:
            while data and not self._is_gone:
                data = data[os.write(self.fileno(), data) :]
        except OSError:
            self._is_gone = True
            self._on_gone()
        return len(text)


if sys.platform != "win32":
    from prompt_toolkit.input.posix_utils import PosixStdinReader
    from prompt_toolkit.input.vt100 import Vt100Input

    class _Reader(PosixStdinReader):
        """Reads keys; an error means that the terminal is gone, which the original waits out."""

        def read(self, count: int = 1024) -> str:
            try:
                data = os.read(self.stdin_fd, count)
            except (InterruptedError, BlockingIOError):
                return ""
            except OSError:
                data = b""
            self.closed = not data
            return self._stdin_decoder.decode(data)

    def _end_with_the_terminal(keyboard: Input) -> None:
        if isinstance(keyboard, Vt100Input):
            keyboard.stdin_reader = _Reader(keyboard.fileno(), errors="replace")
