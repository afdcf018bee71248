"""HTML as text that a model can read: Markdown without what no reader sees.

Owns what is left out. The parser is justhtml: HTML5's own algorithm in plain Python, linear where
others recurse or slow down, so that a hostile page costs no more than an honest one of its size.
Blocks, and imports the parser; call it in a worker thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

if TYPE_CHECKING:
    from justhtml import Element, Node

# What a browser does not show, and controls that mean nothing to somebody who only reads.
_UNSEEN = frozenset(
    (
        *("head", "script", "style", "noscript", "template", "iframe", "object", "embed", "svg"),
        *("math", "canvas", "audio", "video", "input", "select", "textarea", "button", "dialog"),
    )
)
# How an element hides itself; style sheets are not followed.
_UNSEEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

# What else of an element is worth a reader's while; classes and the like are not.
_KEPT_ATTRIBUTES = frozenset(("href", "alt", "title", "colspan", "rowspan", "start"))
# Links that lead somewhere; others run a script, or carry their own data.
_LINKS = ("http://", "https://", "mailto:")

# Nested lists grow by their indentation; beyond this a page is no text any more.
_GROWTH_CHARACTERS = 500_000


def readable(html: str, url: str) -> str:
    """Return a page as Markdown, its title first, its links absolute.

    Args:
        html: the page.
        url: where it was found, which its links are relative to.
    """
    from justhtml import JustHTML

    root = JustHTML(html, sanitize=False).root
    page = _Page()
    page.prune(root)
    base = _joined(url, page.base)
    for link in page.links:
        href = _joined(base, link.attrs.get("href"))
        link.attrs = {**link.attrs, "href": href} if href.startswith(_LINKS) else {}
    text = root.to_markdown()[:_GROWTH_CHARACTERS]
    return f"{page.title}\n\n{text}".strip()


class _Page:
    """What is noted of a page while what no reader sees is taken out of it."""

    def __init__(self) -> None:
        self.title = ""
        self.base: str | None = None
        self.links: list[Element] = []

    def prune(self, root: Node) -> None:
        """Take out of a tree what no reader sees; a loop, for pages may be nested without end."""
        from justhtml import Element

        waiting: list[Node] = [root]
        while waiting:
            node = waiting.pop()
            kept: list[Any] = []
            for child in node.children or ():
                if isinstance(child, Element):
                    self._note(child)
                    if _is_unseen(child):
                        continue
                    child.attrs = {
                        name: value
                        for name, value in child.attrs.items()
                        if name in _KEPT_ATTRIBUTES
                    }
                    waiting.append(child)
                kept.append(child)
            node.children = kept

    def _note(self, element: Element) -> None:
        if element.name == "a" and "href" in element.attrs:
            self.links.append(element)
        elif element.name == "head":
            for child in element.children or ():
                if child.name == "title" and not self.title:
                    self.title = " ".join(child.to_text().split())
                elif child.name == "base" and self.base is None:
                    self.base = (child.attrs or {}).get("href")


def _is_unseen(element: Element) -> bool:
    attrs = element.attrs
    return (
        element.name in _UNSEEN
        or "hidden" in attrs
        or attrs.get("aria-hidden") == "true"
        or bool(_UNSEEN_STYLE.search(attrs.get("style") or ""))
    )


def _joined(base: str, reference: str | None) -> str:
    try:
        return urljoin(base, (reference or "").strip())
    except ValueError:
        # Such as a bracket that is never closed.
        return base
