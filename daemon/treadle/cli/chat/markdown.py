"""Markdown as lines of a terminal, calm and whole: nothing that was written is left out.

Owns what differs from rich's own taste. Loaded only where a cursor can move.
"""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax
from rich.text import Text

from treadle.sanitise import clean

# Parsing and colouring a block that is longer would hold up everything else for too long.
MARKDOWN_CHARACTERS = 100_000


def markdown(text: str) -> RenderableType:
    """Return a block of Markdown as rich can render it; one that is far too long stays plain."""
    shown = clean(text)
    if len(shown) > MARKDOWN_CHARACTERS:
        return Text(shown)
    return _Markdown(shown)


class _Heading(Heading):
    """A heading at the margin, like everything else."""

    LEVEL_ALIGN: ClassVar = {}


class _CodeBlock(CodeBlock):
    """Code in the terminal's own colours, indented, so that it can be copied line by line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        yield Syntax(code, self.lexer_name, theme="ansi_dark", word_wrap=True, padding=(0, 2))


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, text: str) -> None:
        # A link shows where it leads, instead of hiding that behind its words.
        super().__init__("", hyperlinks=False)
        # Tags, definitions of links and addresses of images would be dropped; they are what a
        # person asked about more often than not.
        parser = MarkdownIt("commonmark", {"html": False})
        parser.enable(["strikethrough", "table"]).disable(["reference", "image"])
        self.parsed = parser.parse(text)
