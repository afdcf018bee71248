"""The bridge between inside types and wire types: the one module that knows both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.agents.catalogue import AgentProblem
from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.options import SessionOptions, advertised_tools
from treadle.compaction.told import Compacted, Compacting
from treadle.errors import TreadleError
from treadle.mcp.status import ServerStatus
from treadle.models.completion import Delta
from treadle.protocol import notifications as wire
from treadle.protocol.agents import AgentInfo, ProblemInfo
from treadle.protocol.base import Address, WireStruct
from treadle.protocol.sessions import (
    CloseResult,
    PromptResult,
    Released,
    ReleasedProcess,
    ResumeReport,
    ResumeResult,
    SessionInfo,
    SteerResult,
    ThreadInfo,
    WireOptions,
)
from treadle.runtime.holding import Closed
from treadle.runtime.outbox import (
    Pair,
    QuestionAsked,
    QuestionSettled,
    Said,
    SessionEvent,
    State,
    StateChanged,
)
from treadle.runtime.prompt import Outcome, Steered
from treadle.runtime.runtime import SessionSummary
from treadle.secrets import known
from treadle.server.bridge_attach import of_watching
from treadle.server.bridge_compaction import of_compaction
from treadle.server.bridge_mcp import (
    released_servers,
    resumed_servers,
    status_of_session,
)
from treadle.server.bridge_messages import wire_usage
from treadle.server.wire.envelope import error_members
from treadle.thread.paths import validate_name
from treadle.thread.thread import Thread
from treadle.turn.events import Retrying, ToolCallStarted, ToolProgressed, ToolResultLanded

# Enough to recognise a command by.
_COMMAND_CHARACTERS = 200


def pair_of(address: Address) -> Pair:
    """Return the pair that params name.

    Raises:
        InvalidParams: a name that no thread could have.
    """
    validate_name(address.agent, "agent")
    validate_name(address.instance, "instance")
    return Pair(address.agent, address.instance)


def close_result(closed: Closed) -> CloseResult:
    """Tell what a close gave back."""
    processes = [
        ReleasedProcess(pid=job.pid, command=_beginning(job.command), exit=job.exit_code)
        for job in closed.jobs
    ]
    released = Released(servers=released_servers(closed.servers), processes=processes)
    return CloseResult(closed=closed.was_open, released=released)


def _beginning(command: str) -> str:
    """Return the beginning of a command, on one line; no secret is cut in half."""
    return " ".join(known().redact(command).split())[:_COMMAND_CHARACTERS]


def options_of(options: WireOptions | None) -> SessionOptions:
    """Return a client's options as the runtime takes them."""
    if options is None:
        return SessionOptions()
    return SessionOptions(
        cwd=None if options.cwd is None else Path(options.cwd),
        model=options.model,
        tools=None if options.tools is None else tuple(options.tools),
        permissions=options.permissions,
        max_turns=options.max_turns,
    )


def agent_info(
    definition: AgentDefinition, model: str, config: Config, missing_variable: str | None = None
) -> AgentInfo:
    """Describe an agent to a client, as the person's configuration lets it be."""
    return AgentInfo(
        name=definition.name,
        description=definition.description,
        model=model,
        permissions=definition.permissions,
        sandbox=definition.sandbox,
        tools=[tool.spec.name for tool in advertised_tools(definition, config)],
        mcp_servers=list(definition.mcp_names),
        source=str(definition.source),
        workspace=None if definition.workspace is None else str(definition.workspace),
        missing_variable=missing_variable,
    )


def problem_info(problem: AgentProblem) -> ProblemInfo:
    """Describe a broken file to a client."""
    return ProblemInfo(path=str(problem.path), message=problem.message)


def thread_info(thread: Thread) -> ThreadInfo:
    """Describe an open thread."""
    last = thread.messages[-1].at if thread.messages else ""
    return ThreadInfo(
        path=None if thread.path is None else str(thread.path),
        messages=thread.count,
        turns=thread.turns,
        updated_at=last or None,
    )


def resume_report(thread: Thread) -> ResumeReport:
    """Tell what loading met."""
    report = thread.report
    return ResumeReport(
        quarantined_lines=report.quarantined_lines,
        torn_bytes=report.torn_bytes,
        repaired_calls=report.repaired_calls,
        interrupted_turn=report.interrupted_turn,
    )


def resume_result(
    thread: Thread,
    state: State,
    *,
    created: bool,
    servers: Sequence[ServerStatus] = (),
    allowed: Sequence[str] = (),
    cwd: Path | None = None,
) -> ResumeResult:
    """Answer whoever opened a session."""
    return ResumeResult(
        created=created,
        state=state,
        thread=thread_info(thread),
        report=resume_report(thread),
        mcp=resumed_servers(servers),
        allowed=[_beginning(text) for text in allowed],
        cwd=None if cwd is None else str(cwd),
    )


def prompt_result(outcome: Outcome) -> PromptResult:
    """Answer a prompt."""
    done = outcome.done
    return PromptResult(
        turn=outcome.turn,
        text=done.text,
        stop_reason=done.stop_reason,
        usage=wire_usage(done.usage),
        steps=done.steps,
        messages=outcome.messages,
    )


def steer_result(steered: Steered) -> SteerResult:
    """Tell what became of steered text."""
    return SteerResult(
        injected=steered.injected, started_turn=not steered.injected, turn=steered.turn
    )


def session_info(summary: SessionSummary) -> SessionInfo:
    """Describe a session in a list."""
    return SessionInfo(
        agent=summary.pair.agent,
        instance=summary.pair.instance,
        state=summary.state,
        messages=summary.messages,
        updated_at=summary.updated_at,
        held_by=summary.held_by,
    )


def wire_error(error: TreadleError) -> wire.WireError:
    """Show an error beside a result, as a reply would carry it."""
    return wire.WireError(**error_members(error))


def notification(event: SessionEvent) -> tuple[str, WireStruct]:
    """Return a session event as the method and params of its notification."""
    payload = event.payload
    if isinstance(payload, Delta):
        return "session/delta", delta_notification(event, payload.text, joined=1)
    address: dict[str, Any] = {
        **event.pair._asdict(),
        "seq": event.seq,
        "turn": event.turn,
        "task": event.task,
    }
    if isinstance(payload, ServerStatus):
        return "mcp/status", status_of_session(event, payload)
    if isinstance(payload, StateChanged):
        return "session/state", wire.StateNotification(
            **address, state=payload.state, queued=payload.queued, storage=payload.storage
        )
    if isinstance(payload, ToolCallStarted):
        call = payload.call
        return "session/toolCall", wire.ToolCallNotification(
            **address,
            id=call.id,
            name=call.name,
            arguments=call.arguments,
            capability=payload.capability,
        )
    if isinstance(payload, ToolProgressed):
        return "session/toolProgress", wire.ToolProgressNotification(
            **address,
            id=payload.call.id,
            message=payload.message,
            done=payload.done,
            total=payload.total,
        )
    if isinstance(payload, ToolResultLanded):
        return "session/toolResult", wire.ToolResultNotification(
            **address,
            id=payload.call.id,
            name=payload.call.name,
            ok=not payload.message.is_error,
            content=payload.message.text,
            truncated=payload.truncated,
            duration_ms=round(payload.duration_seconds * 1000),
        )
    if isinstance(payload, Retrying):
        return "session/retrying", wire.RetryingNotification(
            **address,
            attempt=payload.attempt,
            reason=payload.reason,
            retry_in_seconds=payload.retry_in_seconds,
        )
    if isinstance(payload, QuestionAsked | QuestionSettled | Said):
        return of_watching(address, payload)
    if isinstance(payload, Compacting | Compacted):
        return of_compaction(address, payload)
    return "session/done", wire.DoneNotification(
        **address,
        stop_reason=payload.done.stop_reason,
        text=payload.done.text,
        usage=wire_usage(payload.done.usage),
        error=wire_error(payload.error) if payload.error else None,
    )


def delta_notification(event: SessionEvent, text: str, *, joined: int) -> wire.DeltaNotification:
    """Return a delta's params; `event` is the last of those that `text` joins."""
    assert isinstance(event.payload, Delta)
    return wire.DeltaNotification(
        **event.pair._asdict(),
        seq=event.seq,
        turn=event.turn,
        task=event.task,
        kind=event.payload.kind,
        text=text,
        joined=joined,
    )
