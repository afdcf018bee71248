"""Asking the web: one request after the other, each judged from the start, within one bound.

Owns the bounds on redirects and on the whole, and which hosts are asked. Refuses to know what
an answer says.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from treadle.permissions.policy import Policy
from treadle.tools.web.errors import WebError
from treadle.tools.web.network import Web
from treadle.tools.web.outgoing import Outgoing
from treadle.tools.web.url import WebUrl, parse_url

if TYPE_CHECKING:
    from treadle.tools.web.request import Answer

# Browsers follow 20; a page that is really there is two or three away.
MOST_REDIRECTS = 5

# The field's standard: some 50,000 tokens, of which a model is shown a part at a time.
FETCH_LIMIT_BYTES = 200_000

# What becomes text, the plainest last; some servers answer nothing to whoever does not say.
_ACCEPT = ("Accept", "text/html, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5")

ResultT = TypeVar("ResultT")


async def follow(url: str, policy: Policy, web: Web) -> Answer:
    """Get what a URL leads to, over hosts that the policy allows.

    Raises:
        WebError: it may not be asked for, or was not answered.
    """
    start = parse_url(url)
    return await _in_time(_followed(start, policy, web), start, web)


async def ask(outgoing: Outgoing, web: Web) -> Answer:
    """Send one request and follow nothing.

    Raises:
        WebError: it was not answered.
    """
    return await _in_time(_send(outgoing, web), outgoing.url, web)


async def _followed(url: WebUrl, policy: Policy, web: Web) -> Answer:
    """Follow redirects, each checked as if the model had asked for it.

    Raises:
        WebError: one may not be followed, or they do not end.
    """
    led_from = ""
    for _ in range(MOST_REDIRECTS + 1):
        if not policy.allows_host(url.host):
            raise _not_allowed(url, led_from, policy)
        answer = await _send(Outgoing(url, FETCH_LIMIT_BYTES, (_ACCEPT,)), web)
        if not answer.location:
            return answer
        led_from, url = str(url), url.join(answer.location)
    raise WebError(
        f"There were more than {MOST_REDIRECTS} redirects, the last to {url}. Fetch another page."
    )


async def _send(outgoing: Outgoing, web: Web) -> Answer:
    # The HTTP library takes a moment the first time.
    await asyncio.to_thread(importlib.import_module, "treadle.tools.web.request")
    from treadle.tools.web.request import send

    return await send(outgoing, web.network)


async def _in_time(answer: Awaitable[ResultT], url: WebUrl, web: Web) -> ResultT:
    """Wait for an answer, all redirects together.

    Raises:
        WebError: it did not come within the bound.
    """
    bound = asyncio.timeout(web.request_seconds)
    try:
        async with bound:
            return await answer
    except TimeoutError:
        if not bound.expired():
            raise
        raise WebError(
            f"{url.authority} did not answer in whole within {web.request_seconds:g} s. "
            "Try again later, or go on without it."
        ) from None


def _not_allowed(url: WebUrl, led_from: str, policy: Policy) -> WebError:
    redirected = f"{led_from} redirects to {url}. " if led_from else ""
    there_are = ", ".join(policy.fetch_allow) or "none"
    return WebError(
        f"{redirected}{url.host} is none of the hosts that this agent may fetch from: "
        f"{there_are}. Go on without it."
    )
