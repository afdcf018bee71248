"""Search backends: what a person configures, what one is asked, what is found in its answer.

Owns the shapes of answers. Refuses to know how a request is sent.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from treadle.secrets import known
from treadle.tools.limits import cut_characters
from treadle.tools.web.errors import WebError
from treadle.tools.web.outgoing import Outgoing
from treadle.tools.web.url import parse_url

Method: TypeAlias = Literal["GET", "POST"]

# Stands for the words in the URL of a GET.
PLACEHOLDER = "{query}"

# The header that takes a key after the word Bearer; others take it alone.
AUTHORIZATION = "Authorization"

# Twenty results with long extracts are some 100 KB.
_LIMIT_BYTES = 1_000_000
# Some backends send whole pages as an extract.
_EXTRACT_CHARACTERS = 1_000

# Where the results are, the best known first: SearXNG, Tavily and Exa; Brave; Serper; Google's
# custom search; Bing.
_PLACES = (("results",), ("web", "results"), ("organic",), ("items",), ("webPages", "value"))
# What these call the parts of a result, the best known first.
_TITLES = ("title", "name")
_URLS = ("url", "link")
_EXTRACTS = ("content", "description", "snippet", "text")

# Bold and the like; a page that speaks of `a < b` has no such thing.
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,100}>")


@dataclass(frozen=True, slots=True)
class SearchBackend:
    """Whom to ask for search results.

    Args:
        url: where; of a GET it holds `{query}`.
        method: GET, or POST with the words as `query` in a JSON body.
        api_key_env: the environment variable that holds the key; None where there is none.
        header: the header that takes the key.
    """

    url: str
    method: Method = "GET"
    api_key_env: str | None = None
    header: str = AUTHORIZATION

    def outgoing(self, query: str) -> Outgoing:
        """Return the request for some words.

        Raises:
            WebError: the key is not there, or the URL cannot be asked.
        """
        headers = (("Accept", "application/json"), *self._key())
        url = parse_url(self.url.replace(PLACEHOLDER, quote(query, safe="")))
        if self.method == "GET":
            return Outgoing(url, _LIMIT_BYTES, headers, anywhere=True)
        body = msgspec.json.encode({"query": query})
        headers = (*headers, ("Content-Type", "application/json"))
        return Outgoing(url, _LIMIT_BYTES, headers, body, anywhere=True)

    def _key(self) -> tuple[tuple[str, str], ...]:
        """Return the header with the key; none where none is wanted.

        Raises:
            WebError: the key is not there, or cannot be sent.
        """
        if self.api_key_env is None:
            return ()
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise WebError(
                f"Search is not set up: the variable {self.api_key_env} holds no key. "
                "Tell the person, and go on without it."
            )
        if not key.isascii() or not key.isprintable():
            raise WebError(
                f"Search is not set up: the variable {self.api_key_env} holds no key that a "
                "request can carry. Tell the person, and go on without it."
            )
        return ((self.header, f"Bearer {key}" if self.header == AUTHORIZATION else key),)


@dataclass(frozen=True, slots=True)
class Found:
    """One result."""

    title: str
    url: str
    extract: str


def read_results(data: bytes) -> list[Found]:
    """Return the results in an answer, in its order.

    Raises:
        WebError: it is none of the known shapes.
    """
    try:
        answer = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WebError(
            "The search backend did not answer in JSON, so nothing was found out. Tell the "
            "person that the url of [search] in config.toml must ask for JSON."
        ) from error
    for place in _PLACES:
        entries = _at(answer, place)
        if isinstance(entries, list):
            return [found for entry in entries if (found := _found(entry))]
    raise WebError(
        "The search backend answered without a list of results in a known shape. Tell the person "
        "to look at [search] in config.toml."
    )


def _at(value: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _found(entry: Any) -> Found | None:
    """Read one result; without an address it is none."""
    if not isinstance(entry, dict) or not (url := _first(entry, _URLS)):
        return None
    # Before it is cut: half a secret is not recognised any more.
    extract = known().redact(_plain(_first(entry, _EXTRACTS)))
    extract = cut_characters(extract, _EXTRACT_CHARACTERS)
    return Found(_plain(_first(entry, _TITLES)) or url, url, extract)


def _first(entry: dict[str, Any], names: tuple[str, ...]) -> str:
    texts = (entry.get(name) for name in names)
    return next((" ".join(text.split()) for text in texts if isinstance(text, str) and text), "")


def _plain(text: str) -> str:
    """Leave out the marks that backends put around the words that were found."""
    import html

    return html.unescape(_TAG.sub("", text))
