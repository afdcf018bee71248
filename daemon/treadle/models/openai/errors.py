"""The endpoint's failures, told in our own errors: the one place that translates them.

Owns which failure becomes which error, and its words. Refuses to know how vendors word a reply
(`replies`, `overflow`), who asked and what is done next.
No message holds the key, whatever the endpoint or the library wrote.

| what happened                                          | error                       |
|--------------------------------------------------------|-----------------------------|
| a refused key                                          | `ModelAuth`                 |
| more was asked in a while than is allowed              | `ModelRateLimited`          |
| a used-up quota or balance; a request that is larger   | `ModelRateLimited`, for     |
| than what may be asked in a while                      | which no waiting helps      |
| a conversation that is too long                        | `ContextOverflow`           |
| an overloaded or failing endpoint, no connection       | `ModelUnreachable`          |
| any other 4xx                                          | `ModelRefusedRequest`       |
| anything that ends an answer that had begun            | `ModelStreamBroken`         |

An error object inside a stream is the last row, unless it says plainly that it is one of the
first four: those call for something other than asking again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import msgspec

from treadle.errors import (
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelStreamBroken,
    ModelUnreachable,
)
from treadle.models.openai.client import NO_KEY, shown_url
from treadle.models.openai.replies import Reply, read_reply, status_in
from treadle.secrets import known
from treadle.thread.message import decode_json

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

# Enough to read what an endpoint says; some answer with a whole web page.
SAID_CHARACTERS = 400

# Where a person sets the key, for every message that is about it.
HOW_TO_SET_THE_KEY = (
    "set it in OPENAI_API_KEY, or in the variable that `api_key_env` names in config.toml "
    "or in the agent's file"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Whom a request went to, as errors tell it."""

    url: str
    model: str
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, client: AsyncOpenAI, model: str) -> Self:
        """Describe where `client` sends requests for `model`."""
        return cls(shown_url(str(client.base_url)), model, client.api_key)

    def __str__(self) -> str:
        return f"the model endpoint {self.url} ({self.model})"

    @property
    def has_key(self) -> bool:
        """Whether a person set a key."""
        return self.key not in ("", NO_KEY)

    def redacted(self, said: object) -> str:
        """Return what an endpoint or a library said, short, on one line, without the key."""
        # Before the text is cut, whatever else is secret too: half of one is not recognised later.
        text = known().redact(" ".join(str(said).split()))
        if self.has_key:
            text = text.replace(self.key, "[key]")
        return text if len(text) <= SAID_CHARACTERS else text[:SAID_CHARACTERS] + "…"


def from_library(error: Exception, place: Place, *, started: bool = False) -> ModelError:
    """Translate what the library or its transport raised.

    Args:
        error: an error of `openai` or of its HTTP client.
        place: whom the request went to.
        started: a part of the answer had come.
    """
    import httpx2
    import openai

    cause = error.__cause__ or error
    if isinstance(error, openai.APIStatusError):
        return _from_response(error, place)
    if started or isinstance(error, openai.APIResponseValidationError):
        return stream_broken(place, f"broke off its answer ({_name(cause, place)})")
    if isinstance(cause, httpx2.ConnectTimeout | httpx2.ConnectError | httpx2.UnsupportedProtocol):
        return ModelUnreachable(
            f"{place} cannot be reached ({_name(cause, place)}); "
            "is it running, and is base_url right?"
        )
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException | TimeoutError):
        return ModelUnreachable(f"{place} did not answer in time; try again later")
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | OSError):
        return ModelUnreachable(f"{place} broke off the connection ({_name(cause, place)})")
    if isinstance(error, openai.APIError):
        return stream_broken(place, f"answered with an error: {place.redacted(error)}")
    return ModelRefusedRequest(
        f"the request for {place} could not be made: {place.redacted(error)}"
    )


def from_stream(error: object, place: Place) -> ModelError:
    """Translate an error object that came inside a stream, or in its place."""
    reply = read_reply(status_in(error), error)
    said = place.redacted(reply.said or error)
    if reply.kind in ("fault", "refused"):
        told: ModelError = stream_broken(place, f"broke off its answer with an error: {said}")
    else:
        told = _told(reply, status_in(error), said, {}, place)
    told.said = _in_its_own_words(reply, place)
    return told


def no_room(place: Place) -> ContextOverflow:
    """Tell that the window was full before the answer had a word."""
    return ContextOverflow(f"the conversation is too long for {place}: it leaves no room to answer")


def stream_broken(place: Place, what: str) -> ModelStreamBroken:
    """Tell that an answer stopped before its end; whoever has the text adds it."""
    return ModelStreamBroken(f"{place} {what}; ask again")


def _from_response(error: APIStatusError, place: Place) -> ModelError:
    body = _body(error)
    reply = read_reply(error.status_code, body)
    said = place.redacted(reply.said or body or error.message)
    told = _told(reply, error.status_code, said, error.response.headers, place)
    told.said = _in_its_own_words(reply, place) or said
    return told


def _body(error: APIStatusError) -> object:
    """Return the whole reply: the library keeps what is in its `error`, and some say more."""
    try:
        return decode_json(error.response.content)
    except (msgspec.DecodeError, RuntimeError):  # no JSON, or a body that nobody could read
        return error.body


def _in_its_own_words(reply: Reply, place: Place) -> str:
    """Join what names a fault: some endpoints say it in the code or the parameter alone."""
    return place.redacted(f"{reply.codes} {reply.said}")


def _told(
    reply: Reply, status: int, said: str, headers: Mapping[str, str], place: Place
) -> ModelError:
    match reply.kind:
        case "auth":
            shown = f" ({status})" if status else ""
            problem = f"refused the key{shown}" if place.has_key else f"wants a key{shown}"
            return ModelAuth(
                f"{place} {problem}: {said}; {HOW_TO_SET_THE_KEY}", status=status or None
            )
        case "quota":
            return ModelRateLimited(
                f"the quota at {place} is used up, and waiting does not help: {said}",
                may_pass=False,
            )
        case "rate_limit":
            return _rate_limited(reply, said, headers, place)
        case "overflow":
            counted = reply.overflow
            return ContextOverflow(
                f"the conversation is too long for {place}: {said}",
                window=counted.window,
                asked_tokens=counted.asked,
            )
        case "fault":
            return ModelUnreachable(f"{place} failed ({status}): {said}; try again", status=status)
        case "refused":
            hint = "; does it have this model, and does base_url end in /v1?"
            return ModelRefusedRequest(
                f"{place} refused the request ({status}): {said}{hint if status == 404 else ''}",
                status=status,
            )


def _rate_limited(
    reply: Reply, said: str, headers: Mapping[str, str], place: Place
) -> ModelRateLimited:
    if reply.alone_too_large:
        return ModelRateLimited(
            f"{place} takes less in a while than this one request has, "
            f"and waiting does not help: {said}",
            may_pass=False,
        )
    seconds = _retry_after_seconds(headers)
    if seconds is None:
        seconds = reply.retry_seconds
    when = "later" if seconds is None else f"in {seconds:g} s"
    return ModelRateLimited(
        f"{place} asks to slow down: {said}; try again {when}", retry_after_seconds=seconds
    )


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Read how long an endpoint asks to wait (RFC 9110, 10.2.3, and `retry-after-ms`)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    from email.utils import parsedate_to_datetime

    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(0.0, number) if abs(number) < float("inf") else None


def _name(error: BaseException, place: Place) -> str:
    text = place.redacted(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
