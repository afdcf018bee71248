"""What an endpoint's error reply says: which kind of failure it is, with its figures.

Owns how vendors put errors into JSON, and the words and codes by which kinds are told apart.
Pure: refuses to know our errors, keys and URLs; what it returns is not redacted.

The order decides, for one reply may hold the words of several kinds:

1. A key that was refused: 401 and 403, or a code or text that says so at another status. Some
   say with 403 that the money is used up.
2. A limit on tokens or requests in a time. It names tokens, often "too large", and is told as
   413 by Groq; it is never an overflow.
3. A conversation that is too long, by its code or its words, at whichever status: 400, 402,
   413, 422, 429 and 500 are in use.
4. Money or quota that is used up: 402, or a code or text that says so.
5. Anything else that is 429, or calls itself a rate limit or throttling.
6. 413 without a word: too long.
7. 408, 409, 498, 5xx: the endpoint's own trouble. All else is the request's fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from treadle.models.openai.overflow import Overflow, overflow_in

Kind: TypeAlias = Literal["auth", "overflow", "quota", "rate_limit", "fault", "refused"]

# Kinds are told by a reply's first words. What follows may be an echo of the conversation, in
# which anything may be said.
READ_CHARACTERS = 2_000

# Replies nest their text a few levels deep at most.
MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Reply:
    """An error reply, read.

    Args:
        kind: what it tells.
        said: its text; empty where it has none.
        codes: its codes, types and the parameter that it names, joined by spaces.
        overflow: what it counts, where it tells an overflow.
        retry_seconds: how long it asks to wait, where its text says so.
        alone_too_large: a rate limit that the request exceeds all by itself.
    """

    kind: Kind
    said: str
    codes: str
    overflow: Overflow = field(default_factory=Overflow)
    retry_seconds: float | None = None
    alone_too_large: bool = False


def read_reply(status: int, body: object) -> Reply:
    """Read an error reply.

    Args:
        status: the HTTP status; 0 for an object in a stream that names none.
        body: decoded JSON, or the text that is none.
    """
    said = "; ".join(dict.fromkeys(_texts(body)))
    codes = " ".join(dict.fromkeys(_codes(body)))[:READ_CHARACTERS]
    text = f"{codes} {said[:READ_CHARACTERS]}"
    overflow = _overflow(body, text)
    kind = _kind(status, codes, text, overflow is not None)
    return Reply(
        kind,
        said,
        codes,
        (overflow if kind == "overflow" else None) or Overflow(),
        _retry_seconds(text),
        kind == "rate_limit" and _is_alone_too_large(text),
    )


def status_in(body: object) -> int:
    """Return the HTTP status that an error object names; 0 when it names none."""
    for level in _levels(body):
        for name in ("status", "status_code", "code"):
            text = str(level.get(name))
            if re.fullmatch(r"[45]\d\d", text):
                return int(text)
    return 0


def _kind(status: int, codes: str, text: str, is_overflow: bool) -> Kind:
    if status in (401, 403):
        return "quota" if _MONEY.search(text) else "auth"
    if status in (0, 400) and _AUTH.search(text):
        return "auth"
    is_quota = bool(_QUOTA.search(codes))
    if not is_quota and _IN_TIME.search(text):
        return "quota" if _IN_MONTH.search(text) else "rate_limit"
    if is_overflow:
        return "overflow"
    if is_quota or status == 402 or _MONEY.search(text):
        return "quota"
    if status == 429 or _RATE_CODES.search(codes):
        return "fault" if _OVERLOADED.search(codes) else "rate_limit"
    if (status in (0, 413) or status >= 500) and _RATE_WORDS.search(text):
        return "rate_limit"
    if status == 413:
        return "overflow"
    # 498 is Groq's, for a tier that has no capacity left.
    return "fault" if status in (408, 409, 498) or status >= 500 else "refused"


_AUTH = re.compile(
    r"invalid_api_key|API_KEY_INVALID|invalid_authentication|authentication_error"
    r"|api key not valid|incorrect api key|invalid api key",
    re.IGNORECASE,
)

# A limit on what may be asked in a while. The last is how Google names its own.
_IN_TIME = re.compile(
    r"(?:tokens?|requests?|calls?)(?: rate)? ?(?:per|/) ?(?:second|min|hour|day|month)"
    r"|\b[TR]P[MDH]\b|\bITPM\b|\d per \d+s\b|(?:token|call|request)s? rate limit"
    r"|please wait before trying again|quota exceeded for",
    re.IGNORECASE,
)
_IN_MONTH = re.compile(r"(?:tokens?|requests?|calls?) ?(?:per|/) ?month", re.IGNORECASE)

_QUOTA = re.compile(
    r"insufficient_quota|exceeded_current_quota|credit_balance|billing_hard_limit"
    r"|insufficient_(?:balance|credits)",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"insufficient_quota|exceeded_current_quota|insufficient (?:balance|credits?|funds)"
    r"|credit balance is too low|used all available credits|monthly spending limit"
    r"|requires more credits|used up your daily free allocation|account is suspended"
    r"|余额不足|欠费",
    re.IGNORECASE,
)

_RATE_CODES = re.compile(
    r"rate_?limit|throttl|too_?many_?requests|capacity_exceeded", re.IGNORECASE
)
_RATE_WORDS = re.compile(r"rate.?limit|throttl|too many requests|速率限制|请求频率", re.IGNORECASE)
_OVERLOADED = re.compile(r"overload", re.IGNORECASE)

_LIMIT_AND_ASKED = re.compile(r"limit:? (\d[\d,]{0,14}).{0,60}?requested:? (\d[\d,]{0,14})", re.I)

_RETRY = re.compile(
    r"(?:again|retry|wait)(?: in| after)? (?=\d)(?:(\d+) ?h(?:ours?)?(?![a-z]) ?)?"
    r"(?:(\d+) ?m(?:in(?:ute)?s?)?(?![a-z]) ?)?"
    r"(?:(\d+(?:\.\d+)?) ?(ms|s(?:ec(?:ond)?s?)?)(?![a-z]))?",
    re.IGNORECASE,
)


def _is_alone_too_large(text: str) -> bool:
    found = _LIMIT_AND_ASKED.search(text)
    if found is None:
        return False
    limit, asked = (int(figure.replace(",", "")) for figure in found.groups())
    return asked > limit


def _retry_seconds(text: str) -> float | None:
    """Read "try again in 9m38.016s", "retry after 60 seconds" and their like."""
    found = _RETRY.search(text)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, unit = found.groups()
    part = float(seconds or 0) / (1000 if (unit or "").lower() == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + part


def _overflow(body: object, text: str) -> Overflow | None:
    found = overflow_in(text)
    for level in _levels(body):  # llama.cpp counts in members of their own
        window, asked = level.get("n_ctx"), level.get("n_prompt_tokens")
        counted = Overflow.counted(window, asked)
        if found is not None and counted != Overflow():
            return Overflow(counted.window or found.window, counted.asked or found.asked)
    return found


def _texts(body: object) -> Iterator[str]:
    """Yield what a reply says in words, the outermost first."""
    levels = list(_levels(body))
    if not levels and body:
        yield str(body)
    for level in levels:
        for name in ("message", "msg", "detail", "error", "error_msg", "status_msg", "raw"):
            said = level.get(name)
            if isinstance(said, str) and said:
                yield said


def _codes(body: object) -> Iterator[str]:
    names = ("code", "type", "status", "param", "reason", "error_code", "error_type")
    for level in _levels(body):
        for name in names:
            code = level.get(name)
            if code and isinstance(code, str | int):
                yield str(code)


def _levels(body: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that hold what a reply says.

    `{"error": {…}}` is the common form; Google sends a list of it, FastAPI a list of `detail`,
    Cloudflare and IBM `errors`, MiniMax `base_resp`, and OpenRouter passes on in `metadata`
    what the provider behind it said.
    """
    if depth > MAX_DEPTH:
        return
    if isinstance(body, list):
        for item in body[:MAX_DEPTH]:
            yield from _levels(item, depth + 1)
    if isinstance(body, dict):
        yield body
        for name in ("error", "errors", "detail", "base_resp", "metadata"):
            if isinstance(body.get(name), dict | list):
                yield from _levels(body[name], depth + 1)
