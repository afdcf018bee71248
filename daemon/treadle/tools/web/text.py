"""HTML as text that a model can read: Markdown without what no reader sees.

Owns what is left out. The parser is justhtml: HTML5's own algorithm in plain Python, linear where
others recurse or slow down, so that a hostile page costs no more than an honest one of its size.
Blocks, and imports the parser; call it in a worker thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from justhtml import JustHTML, Node
    from justhtml.transforms.spec import DecideAction

# What a browser does not show, and controls that mean nothing to somebody who only reads.
_UNSEEN = frozenset(
    (
        *("head", "script", "style", "noscript", "template", "iframe", "object", "embed", "svg"),
        *("math", "canvas", "audio", "video", "input", "select", "textarea", "button", "dialog"),
    )
)
_UNSEEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

# Nested lists grow by their indentation; beyond this a page is no text any more.
_GROWTH_CHARACTERS = 500_000


def readable(html: str, url: str) -> str:
    """Return a page as Markdown, its title first, its links absolute.

    Args:
        html: the page.
        url: where it was found, which its links are relative to.
    """
    from justhtml import Decide, DropAttrs, EditAttrs, JustHTML

    whole = JustHTML(html, sanitize=False)
    base = _base(whole, url)

    def make_absolute(node: Node) -> dict[str, str | None]:
        attrs = dict(node.attrs or {})
        return {**attrs, "href": _joined(base, attrs.get("href"))}

    seen = JustHTML(
        whole.root,
        transforms=[
            # One look at each element: a list of selectors would be tried one by one.
            Decide("*", _drop_unseen),
            EditAttrs("a[href]", make_absolute),
            DropAttrs("img", patterns=("src", "srcset")),
        ],
    )
    title = " ".join(each.to_text() for each in whole.query("title")[:1])
    text = seen.to_markdown()[:_GROWTH_CHARACTERS]
    return f"{' '.join(title.split())}\n\n{text}".strip()


def _drop_unseen(node: Node) -> DecideAction:
    from justhtml import Decide, Element

    if not isinstance(node, Element):
        return Decide.KEEP
    attrs = node.attrs or {}
    unseen = (
        node.name in _UNSEEN
        or "hidden" in attrs
        or attrs.get("aria-hidden") == "true"
        or _UNSEEN_STYLE.search(attrs.get("style") or "")
    )
    return Decide.DROP if unseen else Decide.KEEP


def _base(page: JustHTML, url: str) -> str:
    """Return what the links of a page are relative to."""
    for node in page.query("base[href]"):
        return _joined(url, (node.attrs or {}).get("href"))
    return url


def _joined(base: str, reference: str | None) -> str:
    try:
        return urljoin(base, (reference or "").strip())
    except ValueError:
        # Such as a bracket that is never closed.
        return base
