"""How an answer, whole or cut short, becomes the one assistant message of a model call.

Owns what a finish reason means, for every completion that ships.
Refuses to know where the answer came from.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from treadle.errors import TreadleError
from treadle.models.completion import CompletionEnv
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.records import StopReason
from treadle.thread.repair import distinct_calls

logger = logging.getLogger(__name__)

# With any other reason a call may be unfinished, and half a call is never run.
_CALLS_ARE_WHOLE = frozenset({"stop", "tool_calls", "function_call"})

_CUT_SHORT: dict[str, StopReason] = {"length": "max_tokens", "content_filter": "refusal"}


async def say_answer(
    env: CompletionEnv,
    *,
    model: str,
    finish_reason: str,
    text: str,
    reasoning: str = "",
    calls: Sequence[ToolCall] = (),
    usage: Usage | None = None,
    refused: bool = False,
) -> None:
    """Append a finished answer.

    An answer without text and calls is appended too: the turn then ends with no text, its
    usage is kept, and the view sent to a model leaves the message out.

    Args:
        env: the env of the call.
        model: the model that answered.
        finish_reason: as the provider says it; `length` and `content_filter` end the turn.
        text: what it says.
        reasoning: what it thought aloud.
        calls: what it calls; dropped unless the answer is whole.
        usage: what the call cost.
        refused: the text is a refusal.
    """
    stop_reason = "refusal" if refused else _CUT_SHORT.get(finish_reason)
    if stop_reason is not None:
        env.stop_reason = stop_reason
        env.should_exit = True
    whole = stop_reason is None and finish_reason in _CALLS_ARE_WHOLE
    await env.append(
        Message(
            "assistant",
            text,
            tool_calls=distinct_calls(calls if whole else (), env.messages),
            reasoning=reasoning,
            model=model,
            usage=usage,
        )
    )


async def say_partial(env: CompletionEnv, *, model: str, text: str, reasoning: str = "") -> None:
    """Append what had come of an answer that was cut short; nothing when nothing had come.

    Contract: raises no error of ours; what cut the answer short is the error to tell.
    """
    if not (text or reasoning):
        return
    try:
        await env.append(Message("assistant", text, reasoning=reasoning, model=model, partial=True))
    except TreadleError as error:
        logger.warning("the text of a cut-short answer is lost: %s", error.message)
