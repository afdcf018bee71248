"""The endpoint's failures, told in our own errors: the one place that translates them.

Owns the table of statuses, codes and texts. Refuses to know who asked or what is done next.
No message holds the key, whatever the endpoint or the library wrote.

| what happened                                        | error                 |
|------------------------------------------------------|-----------------------|
| 401, 403                                             | `ModelAuth`           |
| 429, a used-up quota, a rate limit told as 413       | `ModelRateLimited`    |
| 413, an overflow's code or text at any other status  | `ContextOverflow`     |
| 408, 409, 5xx, no connection, silence                | `ModelUnreachable`    |
| any other 4xx                                        | `ModelRefusedRequest` |
| anything that ends an answer that had begun          | `ModelStreamBroken`   |

An error object inside a stream is the last row, unless its code or status says plainly that it
is one of the first three: those call for something other than asking again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

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
from treadle.secrets import known

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

# Enough to read what an endpoint says; some answer with a whole web page.
SAID_CHARACTERS = 400

# Where a person sets the key, for every message that is about it.
HOW_TO_SET_THE_KEY = (
    "set it in OPENAI_API_KEY, or in the variable that `api_key_env` names in config.toml "
    "or in the agent's file"
)

# How endpoints say that a conversation is too long, beside the status 413.
_OVERFLOW = re.compile(
    "|".join(
        (
            "context_length_exceeded",  # OpenAI, and many that follow it
            "exceed_context_size_error",  # llama.cpp
            "model_max_prompt_tokens_exceeded",  # GitHub
            r"maximum (?:context|prompt|model) length",  # OpenAI, vLLM, OpenRouter, xAI
            r"exceeds? (?:the )?(?:model'?s? )?(?:available |maximum |max )?context",  # llama.cpp
            r"exceeded max(?:imum)? context",  # Ollama
            r"context (?:size|length|window) (?:has been |was |is )?exceeded",
            r"(?:greater|longer|larger) than (?:the )?(?:model'?s? )?(?:maximum )?context",
            r"context the overflows|context length of only",  # LM Studio
            r"exceeds the maximum number of (?:input )?tokens",  # Gemini
            r"reduce the length of the messages",  # Groq
            r"(?:prompt|input) is too long",  # Anthropic, Bedrock
            r"too large for model with \d+ maximum",  # Mistral
        )
    ),
    re.IGNORECASE,
)

# A limit on tokens per minute, which Groq tells as 413 and OpenAI with "too large".
_RATE_LIMIT = re.compile(
    r"rate_?limit|tokens? per (?:min|day)|requests? per (?:min|day)|\bTPM\b|insufficient_quota",
    re.IGNORECASE,
)

_WINDOW = re.compile(r"(?:maximum (?:context|prompt|model) length|context size)\D{0,12}(\d[\d,]*)")


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
    """Translate an error object that came inside a stream."""
    body = error if isinstance(error, dict) else {"message": error}
    status = _status(body)
    said = place.redacted(body.get("message") or error)
    clear = status in (401, 403, 413, 429) or _is_overflow(status, body, said)
    if clear or _is_rate_limit(status, body, said):
        told = _from_status(status, body, said, {}, place)
    else:
        told = stream_broken(place, f"broke off its answer with an error: {said}")
    told.said = _in_its_own_words(body, said)
    return told


def stream_broken(place: Place, what: str) -> ModelStreamBroken:
    """Tell that an answer stopped before its end; whoever has the text adds it."""
    return ModelStreamBroken(f"{place} {what}; ask again")


def _from_response(error: APIStatusError, place: Place) -> ModelError:
    body = error.body if isinstance(error.body, dict) else {}
    said = place.redacted(body.get("message") or error.body or error.message)
    told = _from_status(error.status_code, body, said, error.response.headers, place)
    told.said = _in_its_own_words(body, said)
    return told


def _in_its_own_words(body: Mapping[str, Any], said: str) -> str:
    """Join what names a fault: some endpoints say it in the code or the parameter alone."""
    return " ".join(str(body[name]) for name in ("code", "param") if body.get(name)) + f" {said}"


def _from_status(
    status: int,
    body: Mapping[str, Any],
    said: str,
    headers: Mapping[str, str],
    place: Place,
) -> ModelError:
    if status in (401, 403):
        problem = f"refused the key ({status})" if place.has_key else f"wants a key ({status})"
        return ModelAuth(f"{place} {problem}: {said}; {HOW_TO_SET_THE_KEY}", status=status)
    if _is_rate_limit(status, body, said):
        return _rate_limited(body, said, headers, place)
    if _is_overflow(status, body, said):
        return ContextOverflow(
            f"the conversation is too long for {place}: {said}", window=_window(body, said)
        )
    if status in (408, 409) or status >= 500:
        return ModelUnreachable(f"{place} failed ({status}): {said}; try again", status=status)
    hint = "; does it have this model, and does base_url end in /v1?" if status == 404 else ""
    return ModelRefusedRequest(
        f"{place} refused the request ({status}): {said}{hint}", status=status
    )


def _rate_limited(
    body: Mapping[str, Any], said: str, headers: Mapping[str, str], place: Place
) -> ModelRateLimited:
    if "insufficient_quota" in (body.get("code"), body.get("type")):
        return ModelRateLimited(
            f"the quota at {place} is used up, and waiting does not help: {said}", may_pass=False
        )
    seconds = _retry_after_seconds(headers)
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


def _is_rate_limit(status: int, body: Mapping[str, Any], said: str) -> bool:
    if status == 429:
        return True
    codes = f"{body.get('code')} {body.get('type')}"
    return bool(_RATE_LIMIT.search(codes)) or (status == 413 and bool(_RATE_LIMIT.search(said)))


def _is_overflow(status: int, body: Mapping[str, Any], said: str) -> bool:
    return status == 413 or bool(_OVERFLOW.search(f"{body.get('code')} {body.get('type')} {said}"))


def _window(body: Mapping[str, Any], said: str) -> int | None:
    if isinstance(body.get("n_ctx"), int):  # llama.cpp says it in a member of its own
        return int(body["n_ctx"])
    found = _WINDOW.search(said)
    return int(found[1].replace(",", "")) if found else None


def _status(body: Mapping[str, Any]) -> int:
    """Return the HTTP status that an error object names; 0 when it names none."""
    for name in ("status", "status_code", "code"):
        text = str(body.get(name))
        if re.fullmatch(r"[45]\d\d", text):
            return int(text)
    return 0


def _name(error: BaseException, place: Place) -> str:
    text = place.redacted(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
