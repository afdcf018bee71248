"""What a chat hears of its session: from notifications to what is shown.

Owns how reasoning is folded, how ends are told, and the worst of what happened. Refuses to know
what was asked.
"""

from __future__ import annotations

import time
from typing import Any

from treadle.cli import exit_codes
from treadle.cli.chat import wording
from treadle.cli.chat.activity import Activity
from treadle.cli.chat.items import (
    Called,
    Face,
    Note,
    Returned,
    Said,
    SpeechEnded,
    Spoke,
    Thought,
    Tone,
)

# What goes on while a call is to be allowed, or the model has asked something.
WAITING_FOR_PERSON = "waiting for your answer"

# What is worst comes last; a script is told the worst of what happened.
_BY_WEIGHT = (
    exit_codes.OK,
    exit_codes.ENDED_EARLY,
    exit_codes.INTERRUPTED,
    exit_codes.USAGE,
    exit_codes.FAILED,
)


class Hearing:
    """Shows what the session tells.

    Args:
        face: shows it.
        activity: is told what goes on.
    """

    def __init__(self, face: Face, activity: Activity) -> None:
        self.shows_reasoning = False
        self.last_thought: Thought | None = None
        self.worst = exit_codes.OK
        self._face = face
        self._activity = activity
        self._reasoning: list[str] = []
        self._reasoning_since = 0.0
        self._state = ""  # of the session, as it was last told
        self._unwell: dict[str, str] = {}  # servers that do not work, and what was told of them
        self._told: object = None  # the error that the last turn ended with

    def take(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification; one that says nothing to a person is skipped."""
        if "task" in params:
            self._on_task(method, params)
        elif handler := _HANDLERS.get(method):
            handler(self, params)

    def count(self, code: int) -> None:
        """Note how something ended."""
        self.worst = max(self.worst, code, key=_BY_WEIGHT.index)

    def tell_error(self, error: dict[str, Any]) -> None:
        """Tell of an error; a turn's end and its prompt's reply bring the same one."""
        if error == self._told:
            self._told = None
            return
        self.count(exit_codes.FAILED)
        self._face.show(Note(wording.failure(error), "error"))

    def _on_state(self, params: dict[str, Any]) -> None:
        state = params["state"]
        self._activity.turn_runs(state in ("running", "waiting"))
        if state == "waiting":
            self._activity.now(WAITING_FOR_PERSON)
        elif self._state == "waiting" and state == "running":
            self._activity.now("running")
        self._state = state

    def _on_said(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._face.show(Said(params["text"]))

    def _on_delta(self, params: dict[str, Any]) -> None:
        if params["kind"] == "reasoning":
            self._reason(params["text"])
            return
        self._end_thought()
        self._activity.now("writing")
        self._face.show(Spoke(params["text"]))

    def _on_task(self, method: str, params: dict[str, Any]) -> None:
        """Say what a sub-agent is at; what it says is told by the result of its task."""
        if method == "session/toolCall":
            self._activity.now(f"task {params['task']}: running {params['name']}")
        elif method == "session/delta":
            self._activity.now(f"task {params['task']}: writing")
        elif method == "session/compacting":
            self._activity.now(f"task {params['task']}: compacting")

    def _reason(self, text: str) -> None:
        if not self._reasoning:
            self._reasoning_since = time.monotonic()
            self._activity.now("thinking")
        self._reasoning.append(text)

    def _on_tool_call(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._activity.now(f"running {params['name']}")
        self._face.show(Called(params["name"], params["arguments"]))

    def _on_tool_result(self, params: dict[str, Any]) -> None:
        self._activity.now("waiting for the model")
        self._face.show(
            Returned(
                params["name"],
                params["ok"],
                params["content"],
                params["truncated"],
                params["durationMs"] / 1000,
            )
        )

    def _on_retrying(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._activity.now("waiting to try again")
        self._face.show(Note(wording.retrying(params), "warning"))

    def _on_compacting(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._activity.now(f"compacting {wording.count(params['tokens'], 'token')}")

    def _on_compacted(self, params: dict[str, Any]) -> None:
        """Tell that the model sees less now; where all is as it was, whoever asked says so."""
        if self._activity.is_turn:
            self._activity.now("waiting for the model")
        if params["outcome"] in ("completed", "failed"):
            tone: Tone = "quiet" if params["outcome"] == "completed" else "warning"
            self._face.show(Note(wording.compacted(params), tone))

    def _on_done(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._told = None
        if error := params.get("error"):
            self.tell_error(error)
            self._told = error
            return
        self.count(exit_codes.of_stop_reason(params["stopReason"]))
        if told := wording.early_end(params["stopReason"]):
            self._face.show(Note(told, "warning"))

    def _on_server(self, params: dict[str, Any]) -> None:
        """Tell that a server does not work, once until it is well again."""
        server, state = params["server"], params["state"]
        if state not in ("failed", "restarting"):
            self._unwell.pop(server, None)
        elif self._unwell.get(server) != state:
            self._unwell[server] = state
            self._face.show(Note(wording.unwell(params)))

    def _end_thought(self) -> None:
        if not self._reasoning:
            return
        text, self._reasoning = "".join(self._reasoning), []
        seconds = time.monotonic() - self._reasoning_since
        self.last_thought = Thought(text, seconds, in_full=self.shows_reasoning)
        self._face.show(self.last_thought)

    def _end_speech(self) -> None:
        self._end_thought()
        self._face.show(SpeechEnded())


# What is not here says nothing to a person who looks on.
_HANDLERS = {
    "session/state": Hearing._on_state,
    "session/said": Hearing._on_said,
    "session/delta": Hearing._on_delta,
    "session/toolCall": Hearing._on_tool_call,
    "session/toolResult": Hearing._on_tool_result,
    "session/retrying": Hearing._on_retrying,
    "session/compacting": Hearing._on_compacting,
    "session/compacted": Hearing._on_compacted,
    "session/done": Hearing._on_done,
    "mcp/status": Hearing._on_server,
}
