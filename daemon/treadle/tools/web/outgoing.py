"""What is asked for, before anything of weight is loaded to ask."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.tools.web.url import WebUrl


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request.

    Args:
        url: where to.
        limit_bytes: how much of the answer is read, as it is after decompression.
        headers: beside those that every request has.
        json: a body; a POST where there is one, else a GET.
        anywhere: the address need not be public, for a person configured this host.
    """

    url: WebUrl
    limit_bytes: int
    headers: tuple[tuple[str, str], ...] = ()
    json: bytes | None = None
    anywhere: bool = False
