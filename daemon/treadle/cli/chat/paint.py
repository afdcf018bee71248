"""How everything in a chat looks where a terminal has a cursor: items become lines with colours.

Owns looks and width. Refuses to know where the lines go. Whatever is rendered passes through
`Painter.lines`, which lets no control character of a text through.
"""

from __future__ import annotations

import io
import re

from rich.color import ColorSystem
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from treadle.cli.chat import wording
from treadle.cli.chat.items import Called, Item, Listing, Note, Returned, Said, Thought
from treadle.cli.chat.markdown import markdown
from treadle.sanitise import clean, clean_line

# A long prompt is known to who wrote it; its beginning says which one it was.
SAID_LINES = 8
# Enough of a tool's result to see what it is about.
RESULT_LINES = 4
# Marks of Markdown go, and here and there the language of a code block; the words have to stay.
LEAST_SHARE = 0.5
# Rendering less than this makes no sense, and rich fails where nothing is left of a line.
LEAST_WIDTH = 8

# Stands before what the person says, in the input and above it.
MARK = "▸ "

# Rich's own look has backgrounds and bright colours, which suit few terminals and no long text.
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold dim",
        "markdown.hr": "dim",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.block_quote": "dim",
        "markdown.link": "none",
        "markdown.link_url": "underline",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
# What `Painter` itself puts into a line, and nothing else can.
_LOOKS = re.compile(r"\x1b\[[0-9;]*m")
# A note that changes nothing must not draw the eye; one of a failure must.
_NOTE_STYLES = {"quiet": "dim", "warning": "yellow", "error": "red"}


class Painter:
    """Renders items for a terminal.

    Args:
        colours: whether there may be colours; bold and dim stay without them.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        # The terminal's own sixteen colours: they suit its background, whatever that is.
        self._console = Console(
            file=io.StringIO(), force_terminal=True, color_system="standard", theme=_THEME
        )
        self._options = self._console.options

    def item(self, item: Item, width: int) -> list[str]:
        """Render anything but speech."""
        return self.lines(_renderable(item), width)

    def block(self, text: str, width: int) -> list[str]:
        """Render a block of an answer, without blank lines around it."""
        try:
            lines = self.lines(markdown(text), width)
        except Exception:
            # What rich or its parser stumbles over is shown as it is, whatever it is.
            lines = []
        # So is what they drop: quotes and lists that nest deeper than the terminal is wide.
        if _letters(lines) < _letters([text]) * LEAST_SHARE:
            lines = self.lines(Text(clean(text)), width)
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        return lines

    def lines(self, renderable: RenderableType, width: int) -> list[str]:
        """Render to lines of at most `width` columns, with escapes for nothing but looks."""
        options = self._options.update(width=max(width, LEAST_WIDTH))
        rendered = self._console.render_lines(renderable, options, pad=False)
        return [self._line(segments) for segments in rendered]

    def _line(self, segments: list[Segment]) -> str:
        shown = [(clean(each.text), each.style) for each in segments if not each.control]
        while shown and not shown[-1][0].strip():
            shown.pop()
        if shown:
            shown[-1] = (shown[-1][0].rstrip(), shown[-1][1])
        return "".join(self._styled(text.replace("\n", " "), style) for text, style in shown)

    def _styled(self, text: str, style: Style | None) -> str:
        if style is None:
            return text
        if not self._colours:
            style = style.without_color
        return style.render(text, color_system=ColorSystem.STANDARD)


def _letters(lines: list[str]) -> int:
    """Count the letters and digits that are seen."""
    return sum(char.isalnum() for line in lines for char in _LOOKS.sub("", line))


def _renderable(item: Item) -> RenderableType:
    match item:
        case Said(text):
            return _hanging(MARK, "bold cyan", wording.fold(clean(text), SAID_LINES), "bold")
        case Thought():
            return _thought(item)
        case Called(name, arguments):
            line = Text("• ", "dim")
            line.append(clean_line(name), "bold")
            changed = wording.fold_changes(wording.changes(name, arguments))
            only = {"path": arguments.get("path")} if changed else arguments
            shown = clean_line(wording.arguments(only))
            line = line.append(f"  {shown}", "dim") if shown else line
            return Group(line, _indented(_diff(changed))) if changed else line
        case Returned():
            return _result(item)
        case Note(text, tone):
            if tone == "warning" and "\n  @@" in text:
                return Group(*_diff(text.split("\n"), _NOTE_STYLES[tone]))
            return Text(clean(text), _NOTE_STYLES[tone])
        case Listing(text):
            return Text(clean(text))
    raise AssertionError(f"speech is shown by blocks: {item}")


def _diff(lines: list[str], otherwise: str = "dim") -> list[Text]:
    """Colour the lines of a change as everybody does."""
    return [Text(clean(line), _diff_style(line.strip(" "), otherwise)) for line in lines]


def _diff_style(line: str, otherwise: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], otherwise)


def _thought(thought: Thought) -> RenderableType:
    head = Text("∴ " + wording.thought(thought.text, thought.seconds), "dim italic")
    if not thought.in_full:
        return head
    return Group(head, Padding(Text(clean(thought.text).strip(), "dim"), (0, 0, 0, 2)))


def _result(result: Returned) -> RenderableType:
    head = wording.result_head(clean_line(result.name), result.ok, result.truncated, result.seconds)
    content = wording.fold(clean(result.content), RESULT_LINES, wording.RESULT_LINE_CHARACTERS)
    lines = [Text(head, "dim" if result.ok else "red")]
    lines += [Text(line, "dim") for line in content if line]
    return _indented(lines)


def _indented(lines: list[Text]) -> RenderableType:
    return Padding(Group(*lines), (0, 0, 0, 2))


def _hanging(mark: str, mark_style: str, lines: list[str], style: str) -> RenderableType:
    """Return lines behind a mark, and below each other."""
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, mark_style), Text("\n".join(lines), style, overflow="fold"))
    return grid
