"""The bridge's part for watchers: snapshots and questions as they are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from treadle.protocol import attach as wire
from treadle.protocol.base import WireStruct
from treadle.protocol.client import AskParams, PermissionParams, WireQuestion
from treadle.protocol.sessions import WireToolCall
from treadle.runtime.audience import About, QuestionAsked, QuestionSettled
from treadle.runtime.client import PermissionRequest, Questions
from treadle.runtime.outbox import Said
from treadle.runtime.snapshot import Snapshot
from treadle.server.bridge_messages import wire_message

PERMISSION = "session/requestPermission"
ASK = "session/ask"


def permission_params(request: PermissionRequest) -> PermissionParams:
    """Ask a client whether a call may run."""
    asked = request.question
    call = asked.call
    return PermissionParams(
        **request.pair._asdict(),
        turn=request.turn,
        question=request.id,
        expires_in_seconds=request.expires_in_seconds,
        task=asked.task,
        call=WireToolCall(id=call.id, name=call.name, arguments=call.arguments),
        capability=asked.capability,
        detail=asked.detail,
        preview=asked.preview,
        covers=asked.covered,
        options=["allow_once", "allow_session", "deny"],
    )


def ask_params(asked: Questions) -> AskParams:
    """Ask a client what a model wants to know."""
    return AskParams(
        **asked.pair._asdict(),
        turn=asked.turn,
        question=asked.id,
        expires_in_seconds=asked.expires_in_seconds,
        questions=[
            WireQuestion(id=one.id, text=one.text, options=list(one.options))
            for one in asked.questions
        ],
    )


def of_watching(
    address: dict[str, Any], payload: QuestionAsked | QuestionSettled | Said
) -> tuple[str, WireStruct]:
    """Return what watchers are told of each other as a notification."""
    if isinstance(payload, QuestionAsked):
        return "session/asked", wire.AskedNotification(**address, **_question(payload.about))
    if isinstance(payload, QuestionSettled):
        return "session/settled", wire.SettledNotification(
            **address, id=payload.id, outcome=payload.outcome
        )
    return "session/said", wire.SaidNotification(
        **address, text=payload.text, truncated=payload.truncated
    )


def snapshot_of(seen: Snapshot, thread: Path) -> wire.Snapshot:
    """Show a session as it is; files that its messages refer to are looked for."""
    return wire.Snapshot(
        state=seen.now.state,
        queued=seen.now.queued,
        storage=seen.now.storage,
        turn=seen.turn,
        messages=[wire_message(placed, thread) for placed in seen.messages],
        said=[wire.WireSaid(kind=part.kind, text=part.text) for part in seen.said],
        pending=[wire.PendingQuestion(**_question(about)) for about in seen.pending],
        omitted=seen.omitted,
    )


def _question(about: About) -> dict[str, Any]:
    is_permission = isinstance(about, PermissionRequest)
    params = permission_params(about) if isinstance(about, PermissionRequest) else ask_params(about)
    return {
        "id": about.id,
        "method": PERMISSION if is_permission else ASK,
        "params": msgspec.to_builtins(params),
    }
