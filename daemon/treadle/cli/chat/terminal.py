"""The chat's face on a real terminal: an input that is always there, and a transcript above it.

Owns the screen: what is finished is printed for good and scrolls away like any output; below it
stand the unfinished block of the answer, the status line and the input. Refuses to know the
protocol and what keys mean.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import History as TypedHistory
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from treadle.cli.chat.blocks import BlockSplitter
from treadle.cli.chat.items import (
    Called,
    Item,
    Note,
    Returned,
    SpeechEnded,
    Spoke,
    Status,
    Thought,
)
from treadle.cli.chat.paint import MARK, Painter
from treadle.cli.chat.statusline import status_line
from treadle.cli.chat.store import History
from treadle.cli.chat.tty import one_write, open_input, open_output, rewraps

# How many lines of a long prompt are seen while it is written; the rest scrolls.
INPUT_LINES = 10
# Rows that are not the answer's: the status line, a line of input, a blank one.
OTHER_ROWS = 3
# More of an unfinished block than fits on any screen need not be rendered at each redraw.
LIVE_CHARACTERS = 8_000
# Redrawing more often than this is seen by nobody and costs the model's stream its time.
REDRAW_SECONDS = 0.05
# How soon a new size of the terminal is noticed where nothing tells of it.
POLL_SECONDS = 0.5
# The spinner's pace.
TICK_SECONDS = 0.1

# The terminal's own colours, as in `paint`; what is always there is the quietest.
_STYLE = Style.from_dict(
    {"status": "ansibrightblack", "doing": "ansicyan", "mark": "ansicyan bold"}
)
# Items of one kind stand together, different ones apart.
_KINDS = {Called: "tool", Returned: "tool", Thought: "thought", Note: "note", Spoke: "speech"}


class Terminal:
    """A face that a person types at.

    Args:
        history: what was typed before.
        keys: what keys do, made for the buffer that is typed into.
        on_gone: called when the terminal takes nothing any more.
        on_typed: called when the input has changed.
    """

    interactive = True

    def __init__(
        self,
        history: History,
        keys: Callable[[Buffer], KeyBindingsBase],
        on_gone: Callable[[], None],
        on_typed: Callable[[], None],
    ) -> None:
        self.buffer = Buffer(
            multiline=True,
            history=_Typed(history),
            on_text_changed=lambda _: on_typed(),
        )
        self._painter = Painter(colours=not os.environ.get("NO_COLOR"))
        self._splitter = BlockSplitter()
        self._status = Status("", "")
        self._last_kind = ""
        self._output = open_output(on_gone)
        self._app = _Application(
            layout=self._layout(),
            key_bindings=keys(self.buffer),
            style=_STYLE,
            input=open_input(),
            output=self._output,
            min_redraw_interval=REDRAW_SECONDS,
            erase_when_done=True,
            # A signal tells of a new size, but not on Windows; asking as well would redraw twice.
            terminal_size_polling_interval=POLL_SECONDS if sys.platform == "win32" else None,
        )

    async def run(self) -> None:
        """Keep the input on the screen until `stop`.

        Raises:
            EOFError: the terminal is gone.
        """
        ticking = asyncio.create_task(self._tick())
        try:
            # Interrupts and errors are ours to handle: a dead terminal cannot be asked for a key.
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            ticking.cancel()

    def stop(self) -> None:
        """Take the input off the screen; what was spoken so far stays."""
        self.show(SpeechEnded())
        self._output.is_ending = True  # type: ignore[attr-defined]  # read by `tty.Screen` alone
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def show(self, item: Item) -> None:
        """Show one more thing."""
        match item:
            case Spoke(text):
                self._speak(self._splitter.feed(text))
            case SpeechEnded():
                self._speak([self._splitter.finish()])
            case _:
                kind = _KINDS.get(type(item), "")
                self._print(self._painter.item(item, self._width), kind)

    def status(self, status: Status) -> None:
        """Take note of what goes on now."""
        self._status = status
        self._app.invalidate()

    def offer(self, draft: str) -> None:
        """Put words that were never sent back into the input."""
        self.buffer.text = draft
        self.buffer.cursor_position = len(draft)

    def clear(self) -> None:
        """Empty the input."""
        self.buffer.reset()

    @property
    def _width(self) -> int:
        return self._output.get_size().columns

    def _speak(self, blocks: list[str]) -> None:
        for block in blocks:
            if block.strip():
                self._print(self._painter.block(block, self._width), "speech")
        self._app.invalidate()

    def _print(self, lines: list[str], kind: str) -> None:
        """Print lines for good, above the rest."""
        apart = kind != self._last_kind or kind in ("", "speech")
        self._last_kind = kind
        text = "\r\n".join(["", *lines, ""] if apart else [*lines, ""])
        if self._app.is_running:
            self._app.print_above(text)
        else:
            self._output.write_raw(text)
            self._output.flush()

    def _layout(self) -> Layout:
        search = SearchToolbar()
        typed = BufferControl(
            self.buffer, search_buffer_control=search.control, preview_search=True
        )
        has_live = Condition(lambda: bool(self._splitter.rest.strip()))
        live = Window(FormattedTextControl(self._live), dont_extend_height=True)
        rows: list[Container | SearchToolbar] = [
            ConditionalContainer(live, has_live),
            Window(height=1),
            Window(FormattedTextControl(self._status_line), height=1),
            Window(
                typed,
                wrap_lines=True,
                dont_extend_height=True,
                height=Dimension(min=1, max=INPUT_LINES),
                get_line_prefix=_mark,
            ),
            search,
        ]
        return Layout(HSplit(rows, align=VerticalAlign.TOP), focused_element=typed)

    def _live(self) -> AnyFormattedText:
        """Return the end of the unfinished block, in half of the screen at most.

        A terminal that gets narrower pushes what then has no room into its scrollback, where
        nobody can wipe it any more.
        """
        size = self._output.get_size()
        input_rows = min(self.buffer.document.line_count, INPUT_LINES)
        room = max(min(size.rows - input_rows - OTHER_ROWS, size.rows // 2), 1)
        lines = self._painter.block(self._live_text(), size.columns - 1)[-room:]
        apart = [""] if self._last_kind and len(lines) < room else []
        return ANSI("\n".join([*apart, *lines]))

    def _live_text(self) -> str:
        text = self._splitter.rest
        if len(text) <= LIVE_CHARACTERS:
            return text
        return self._splitter.open_fence + text[-LIVE_CHARACTERS:].partition("\n")[2]

    def _status_line(self) -> AnyFormattedText:
        lines = self.buffer.document.line_count
        return [*status_line(self._status, self._width, lines=lines)]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._status.doing:
                self._app.invalidate()


class _Application(Application[None]):
    """An application that finds its own lines again after the terminal has wrapped them anew."""

    _drawn_columns = 0

    def print_above(self, text: str) -> None:
        """Print something for good, above our lines."""
        with one_write(self.output):
            self.wipe_if_resized()
            self.renderer.erase()
            self.output.write_raw(text)
            self._redraw()

    def wipe_if_resized(self) -> None:
        """Clear our lines before they are drawn in another width; called before each drawing.

        A drawing may come before the signal that tells of the new size.
        """
        columns = self.output.get_size().columns
        if columns != self._drawn_columns:
            _wipe(self, columns)
            self._drawn_columns = columns

    def _on_resize(self) -> None:
        self._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        with one_write(self.output):
            self.wipe_if_resized()
            super()._redraw(render_as_done)


class _Typed(TypedHistory):
    """Our history behind the interface that the input expects."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> list[str]:
        return self._history.load()[::-1]

    def store_string(self, string: str) -> None:
        self._history.append(string)


def _mark(line: int, wrapped: int) -> AnyFormattedText:
    return [("class:mark", MARK)] if line == 0 and wrapped == 0 else "  "


def _wipe(app: Application[None], width: int) -> None:
    """Clear our lines as a terminal that got narrower has wrapped them, and go to the first."""
    screen = app.renderer.last_rendered_screen
    if screen is None:
        return
    cursor = screen.get_cursor_position(app.layout.current_window)
    above = cursor.y
    if rewraps() and width > 0:
        above += cursor.x // width
        above += sum(max(_columns(screen, row) - 1, 0) // width for row in range(cursor.y))
    app.output.write_raw("\r")
    app.output.cursor_up(above)
    app.output.erase_down()
    app.renderer.reset()


def _columns(screen: Screen, row: int) -> int:
    """Return how many columns of a row were written; blanks at its end never are."""
    cells = screen.data_buffer[row].items()
    return max((x + 1 for x, cell in cells if cell.char.strip()), default=0)
