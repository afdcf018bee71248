"""What a person is told when an endpoint fails, whichever way it does."""

from __future__ import annotations

import socket
import time
import traceback
from email.utils import formatdate
from typing import Any

import httpx2
import openai
import pytest

from support.model_peer import KEY, model_peer
from support.model_server import Answer, ModelServer, in_order
from treadle.errors import (
    ConfigurationError,
    ContextOverflow,
    ModelAuth,
    ModelError,
    ModelRateLimited,
    ModelRefusedRequest,
    ModelStreamBroken,
    ModelUnreachable,
    TreadleError,
)
from treadle.models.openai import OpenAICompletion
from treadle.models.openai.client import open_client
from treadle.models.openai.errors import Place, from_library
from treadle.turn.agent import Agent

Kind = type[ModelError]

_NO_ROOM = "the request exceeds the available context size"


@pytest.mark.parametrize(
    ("status", "error", "kind", "data"),
    [
        (400, {"message": "bad"}, ModelRefusedRequest, {"status": 400}),
        (401, {"message": "no"}, ModelAuth, {"status": 401}),
        (402, {"message": "no money"}, ModelRateLimited, {}),
        (403, {"message": "no"}, ModelAuth, {"status": 403}),
        (404, {"message": "no such model"}, ModelRefusedRequest, {"status": 404}),
        (408, {"message": "slow"}, ModelUnreachable, {"status": 408}),
        (409, {"message": "busy"}, ModelUnreachable, {"status": 409}),
        (413, {"message": "too large"}, ContextOverflow, {}),
        (422, {"message": "bad"}, ModelRefusedRequest, {"status": 422}),
        (429, {"message": "slow down"}, ModelRateLimited, {}),
        (500, {"message": "oops"}, ModelUnreachable, {"status": 500}),
        (503, "<html>maintenance</html>", ModelUnreachable, {"status": 503}),
        (529, {"message": "overloaded"}, ModelUnreachable, {"status": 529}),
    ],
)
async def test_each_status_has_its_error(
    status: int, error: Any, kind: Kind, data: dict[str, Any]
) -> None:
    raised = await _failure(Answer(status=status, error=error))
    assert (type(raised), raised.data) == (kind, data)
    said = error if isinstance(error, str) else error["message"]
    assert said in raised.message
    assert "(m)" in raised.message
    assert "http://127.0.0.1:" in raised.message


@pytest.mark.parametrize(
    ("status", "error", "window"),
    [
        (400, {"message": "too long", "code": "context_length_exceeded"}, None),
        (
            400,
            {"message": "This model's maximum context length is 8192 tokens. However, you ..."},
            8192,
        ),
        (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}, 200_000),
        (
            400,
            {
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_ctx": 4096,
            },
            4096,
        ),
        # No window is like that: what is left of one, or what a broken server says.
        *(
            (400, {"message": _NO_ROOM, "n_ctx": figure}, None)
            for figure in (True, 0, -5, 3, "4096", 8192.5)
        ),
        (400, {"message": "Please reduce the length of the messages or completion."}, None),
        (400, {"message": "input length and `max_tokens` exceed context limit: 1 + 2 > 2"}, None),
        (400, {"message": "The input token count exceeds the maximum number of tokens"}, None),
        (400, {"message": "This model's maximum prompt length is 131,072 but ..."}, 131072),
        (400, {"message": "Input is too long for requested model."}, None),
        (422, {"message": "prompt too large for model with 32768 maximum context length"}, 32768),
        (429, {"message": "maximum context length is 10240 tokens"}, 10240),
        (500, {"message": "Context size has been exceeded."}, None),
        (413, "Payload Too Large", None),
    ],
)
async def test_a_conversation_that_is_too_long_is_told_as_such(
    status: int, error: Any, window: int | None
) -> None:
    raised = await _failure(Answer(status=status, error=error))
    assert type(raised) is ContextOverflow
    assert raised.data.get("window") == window


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"message": "Request too large for m on tokens per min (TPM): Limit 30000"}),
        (413, {"message": "Request too large on tokens per minute", "code": "rate_limit_exceeded"}),
        (413, {"message": "on tokens per minute (TPM): Limit 6000, Requested 7000"}),
    ],
)
async def test_a_rate_limit_is_not_taken_for_a_conversation_that_is_too_long(
    status: int, error: dict[str, Any]
) -> None:
    assert type(await _failure(Answer(status=status, error=error))) is ModelRateLimited


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "9", "Retry-After-Ms": "250"}, 0.25),
        ({"Retry-After": formatdate(0, usegmt=True)}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({}, None),
    ],
    ids=str,
)
async def test_a_rate_limit_says_when_to_come_back(
    headers: dict[str, str], seconds: float | None
) -> None:
    raised = await _failure(Answer(status=429, headers=headers))
    assert type(raised) is ModelRateLimited
    assert raised.data.get("retry_after_seconds") == seconds


async def test_a_date_to_come_back_at_is_told_as_seconds() -> None:
    headers = {"Retry-After": formatdate(time.time() + 100, usegmt=True)}
    raised = await _failure(Answer(status=429, headers=headers))
    assert 60 < raised.data["retry_after_seconds"] <= 100


async def test_a_used_up_quota_is_a_rate_limit_that_waiting_does_not_help() -> None:
    error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    raised = await _failure(Answer(status=429, error=error, headers={"Retry-After": "1"}))
    assert (type(raised), raised.data) == (ModelRateLimited, {})
    assert "waiting does not help" in raised.message


async def test_an_endpoint_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as reserved:  # bound and not listening: nobody else gets this port
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"
        async with OpenAICompletion("m", url) as completion:
            with pytest.raises(ModelUnreachable, match=r"cannot be reached.*is it running"):
                await Agent().run(completion).start("Hi")


async def test_a_server_that_wants_a_key_where_none_is_set_says_how_to_set_one() -> None:
    async with (
        ModelServer(in_order(Answer(status=401))) as server,
        OpenAICompletion("m", server.base_url) as completion,
    ):
        with pytest.raises(ModelAuth, match=r"wants a key.*OPENAI_API_KEY.*api_key_env"):
            await Agent().run(completion).start("Hi")


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://x/v1", "http://", "http://[::1", "http://h:99999/v1"]
)
async def test_a_base_url_that_can_never_work_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http"):
        await open_client(url, "", 10)


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", f"{KEY}\u00fc", f"{KEY}\r\nX: y"])
async def test_a_key_that_no_header_can_carry_is_a_configuration_error(key: str) -> None:
    with pytest.raises(ConfigurationError, match="copy it again") as raised:
        await open_client(None, key, 10)
    assert KEY not in _everything(raised.value)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, error={"message": f"Incorrect API key: {KEY}"}),
        Answer(status=400, error=f"You sent Bearer {KEY}"),
        Answer(status=429, error={"message": f"Slow down, {KEY}"}),
        Answer(status=429, error={"message": f"{KEY}", "code": "insufficient_quota"}),
        Answer(status=413, error={"message": f"{KEY} is long"}),
        Answer(status=500, error={"message": "x" * 380 + KEY}),
        Answer("x", stream_error={"message": f"{KEY} is wrong"}),
        Answer("x", stream_error=KEY),
        Answer("x", raw_events=[f"{{{KEY}"]),
        Answer("x", drop_after=1),
    ],
    ids=lambda answer: str(answer.status),
)
async def test_no_error_holds_the_key(answer: Answer) -> None:
    raised = await _failure(answer)
    assert KEY not in _everything(raised)
    assert KEY[:12] not in raised.message


async def test_no_error_holds_what_a_url_hides() -> None:
    async with ModelServer(in_order(Answer(status=500))) as server:
        url = server.base_url.replace("//", "//user:hunter2@") + "?token=hunter3"
        async with OpenAICompletion("m", url) as completion:
            with pytest.raises(ModelError) as raised:
                await Agent().run(completion).start("Hi")
    assert "hunter" not in _everything(raised.value)


# Every error of the library, and what becomes of it. A new one must be given its row.
_LIBRARY = {
    "APIError": ModelStreamBroken,
    "APIResponseValidationError": ModelStreamBroken,
    "APIConnectionError": ModelUnreachable,
    "APITimeoutError": ModelUnreachable,
    "APIStatusError": ModelRefusedRequest,  # 418 below
    "BadRequestError": ModelRefusedRequest,
    "AuthenticationError": ModelAuth,
    "OAuthError": ModelAuth,
    "PermissionDeniedError": ModelAuth,
    "NotFoundError": ModelRefusedRequest,
    "ConflictError": ModelUnreachable,
    "UnprocessableEntityError": ModelRefusedRequest,
    "RateLimitError": ModelRateLimited,
    "InternalServerError": ModelUnreachable,
    # What this protocol never raises is still an error of ours.
    "OpenAIError": ModelRefusedRequest,
    "LengthFinishReasonError": ModelRefusedRequest,
    "ContentFilterFinishReasonError": ModelRefusedRequest,
    "SubjectTokenProviderError": ModelRefusedRequest,
    "WebSocketConnectionClosedError": ModelRefusedRequest,
    "WebSocketQueueFullError": ModelRefusedRequest,
}

_REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
_PLACE = Place("http://127.0.0.1/v1", "m", KEY)


def test_every_error_of_the_library_becomes_one_of_ours() -> None:
    home = vars(openai._exceptions).values()  # where the library keeps them all
    translated = {
        kind.__name__: type(from_library(_library_error(kind), _PLACE))
        for kind in _family(openai.OpenAIError)
        if kind in home or issubclass(kind, openai.APIError)
    }
    assert translated == _LIBRARY


def test_every_error_of_the_transport_becomes_one_of_ours() -> None:
    kinds = [*_family(httpx2.HTTPError), *_family(httpx2.StreamError), OSError, TimeoutError]
    for kind in kinds:
        error = kind.__new__(kind)
        Exception.__init__(error, "broken")
        assert type(from_library(error, _PLACE)) in (ModelUnreachable, ModelRefusedRequest), kind
        assert type(from_library(error, _PLACE, started=True)) is ModelStreamBroken, kind


async def _failure(answer: Answer) -> TreadleError:
    async with model_peer(answer) as peer:
        with pytest.raises(TreadleError) as raised:
            await peer.ask()
    return raised.value


def _everything(error: TreadleError) -> str:
    """What a log would show of an error."""
    return f"{error!r} {error.data} {''.join(traceback.format_exception(error))}"


def _family(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(child for sub in kind.__subclasses__() for child in _family(sub))]


def _library_error(kind: type[Exception]) -> Exception:
    """Make an error of the library as it would come, with the status of its class."""
    if kind is openai.APIError:
        return openai.APIError("broken", _REQUEST, body=None)
    if issubclass(kind, openai.APITimeoutError | openai.APIConnectionError):
        return kind(request=_REQUEST)  # type: ignore[call-arg] # the library's own signature
    if issubclass(kind, openai.APIError):
        default = 503 if kind is openai.InternalServerError else 418
        response = httpx2.Response(getattr(kind, "status_code", default), request=_REQUEST)
        message = {} if kind is openai.OAuthError else {"message": "broken"}
        return kind(**message, response=response, body=None)  # type: ignore[arg-type] # as above
    error = kind.__new__(kind)
    Exception.__init__(error, "broken")
    return error
