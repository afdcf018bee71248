"""The turns of one session as they run: from a place in the lane to everybody's outcome.

Owns that each turn ends exactly once, and is told. Refuses to know how a prompt found its turn.
"""

from __future__ import annotations

import asyncio
import logging
import time

from treadle.errors import InternalError, InvalidParams, TreadleError
from treadle.runtime.compacting import Unended
from treadle.runtime.holding import Holding
from treadle.runtime.keys import Keys, digest_of, told_before
from treadle.runtime.opened import Opened
from treadle.runtime.outbox import TASK_PAYLOADS, Outbox, TurnEnded, TurnPayload
from treadle.runtime.prompt import Outcome, Prompt, told_to_others
from treadle.runtime.respondent import Respondent
from treadle.runtime.services import Services
from treadle.runtime.shown import shown
from treadle.runtime.slot import Slot
from treadle.runtime.standing import Standing
from treadle.runtime.task_turn import TOLD
from treadle.runtime.turn_in_flight import TurnInFlight, TurnStopped
from treadle.runtime.turn_queue import TurnQueue
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import StepStarted, TaskTold, ToolResultLanded

logger = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns, one at a time.

    Args:
        services: the daemon's.
        held: what the session holds.
        turns: the session's, the one that runs first.
        keys: under which of them something runs.
        outbox: where events are told.
        standing: what the session does.
        respondent: whom a turn can ask while it runs.
    """

    def __init__(
        self,
        services: Services,
        held: Holding,
        turns: TurnQueue,
        keys: Keys,
        outbox: Outbox,
        standing: Standing,
        respondent: Respondent,
    ) -> None:
        self._services = services
        self._held = held
        self._turns = turns
        self._keys = keys
        self._outbox = outbox
        self._standing = standing
        self._respondent = respondent

    async def run(self, prompt: Prompt, turn: TurnInFlight) -> None:
        """Run a prompt's turn in the lane; whatever happens, it ends exactly once, and is told."""
        error: TreadleError | None = None
        unended = Unended()
        known: Outcome | TreadleError | None = None
        try:
            known = await self._run(prompt, turn, unended)
        except TurnStopped as stopped:
            if stopped.left_behind:
                await self._held.let_go_at_once(turn.inbox)
        except TreadleError as raised:
            error = raised
        except Exception:
            logger.exception("a turn failed in a way nobody foresaw")
            error = InternalError("the turn failed inside the daemon; its log says how")
        finally:
            self._keep_promises(turn)
            self._turns.remove(turn)
            done = turn.end(error)
            for task, compacted in unended.end():
                self._outbox.emit(compacted, turn.number, task)
        if known is not None:
            turn.askers.become_repeats()
            self.conclude(turn, known)
            return
        self._tell_the_end(turn, TurnEnded(done, error))
        self.conclude(turn, error or Outcome(done, turn.number, turn.messages))

    def conclude(self, turn: TurnInFlight, outcome: Outcome | TreadleError) -> None:
        """Give everybody who asked for a turn its outcome: their only way out."""
        self._keys.end(turn.askers.wanted_keys())
        turn.askers.settle(outcome)

    async def _run(
        self, prompt: Prompt, turn: TurnInFlight, unended: Unended
    ) -> Outcome | TreadleError | None:
        """Take a prompt's turn.

        Returns:
            What its key came to before, or that another prompt has it; None where it has run.

        Raises:
            TurnStopped: it was stopped, maybe before it began.
            TreadleError: it cannot begin, or ended with an error.
        """
        if turn.cause is not None:
            raise TurnStopped
        opened = await self._held.open(prompt.options, prompt.default_cwd)
        self._standing.announce_storage()
        metadata = {"session_id": "/".join(self._outbox.pair)}
        if prompt.key is not None:
            try:
                known = await asyncio.to_thread(told_before, prompt, opened.thread)
            except InvalidParams as used:
                return used
            if known is not None:
                return known
            metadata |= {"key": prompt.key, "asked": digest_of(prompt)}
            if turn.cause is None:
                turn.inbox.open()
        await self._run_agent(prompt, turn, opened, metadata, unended)
        return None

    async def _run_agent(
        self,
        prompt: Prompt,
        turn: TurnInFlight,
        opened: Opened,
        metadata: dict[str, str],
        unended: Unended,
    ) -> None:
        """Run the agent as soon as the daemon has room for one more turn."""
        said = turn.open(opened.thread, prompt.messages)
        agent = await opened.agent(prompt.max_turns, turn.inbox, prompt.buffers)
        slot = Slot(await self._services.turn_slots())
        try:
            if slot.is_free:
                await slot.take()  # at once, and a turn that was told to stop runs nothing below
            else:
                self._standing.announce()
                await turn.run(slot.take())
            self._respondent.attend(turn, prompt, slot)
            turn.follow(agent, opened.thread)
            self._listen(agent, prompt, turn, unended)
            began = time.monotonic()
            await turn.run(agent.start(said, metadata=metadata))
            self._services.admission.note_turn(time.monotonic() - began)
        finally:
            self._respondent.dismiss(turn)
            slot.end()

    def _listen(self, agent: Agent, prompt: Prompt, turn: TurnInFlight, unended: Unended) -> None:
        """Make the agent's events the session's."""

        def step(_env: Env, started: StepStarted) -> None:
            if turn.has_ended:
                return
            # The first sign of a turn whose prompt is in the thread, which has numbered it.
            is_first = self._turns.running is not turn
            self._turns.running = turn
            self._standing.announce()
            if is_first:
                self._outbox.note(told_to_others(prompt), turn.number)
            self._outbox.begin_step()
            turn.askers.tell(started)

        def forward(env: Env, payload: TurnPayload) -> None:
            if turn.has_ended:
                return
            if isinstance(payload, ToolResultLanded) and payload.message.is_error:
                self._log_failure(env, turn, payload.call.name)
            unended.take(payload)
            self._tell(turn, payload)

        def forward_task(_env: Env, told: TaskTold) -> None:
            # Watchers alone: a prompt's own progress and text are its own turn's.
            if not turn.has_ended and isinstance(told.payload, TASK_PAYLOADS):
                unended.take(told.payload, told.number)
                self._outbox.emit(told.payload, turn.number, told.number)

        agent.on("step", step).on("task", forward_task)
        for name in TOLD:
            agent.on(name, forward)

    def _log_failure(self, env: Env, turn: TurnInFlight, tool: str) -> None:
        """Log that a call came to nothing: which tool's, and nothing that the model made up."""
        is_known = any(spec.name == tool for spec in env.tools)
        name = tool if is_known else "a tool that is not there"
        logger.info("%s, turn %s: %s failed", shown(self._outbox.pair), turn.number, name)

    def _tell(self, turn: TurnInFlight, payload: TurnPayload) -> None:
        self._outbox.emit(payload, turn.number)
        turn.askers.tell(payload)

    def _tell_the_end(self, turn: TurnInFlight, ended: TurnEnded) -> None:
        reason = getattr(ended.error, "reason", "")
        logger.info(
            "turn %s of %s: %s after %d steps",
            turn.number or "without a number",
            shown(self._outbox.pair),
            f"{ended.done.stop_reason} ({reason})" if reason else ended.done.stop_reason,
            ended.done.steps,
        )
        self._tell(turn, ended)
        self._standing.announce()

    def _keep_promises(self, turn: TurnInFlight) -> None:
        """Say what was promised to a turn that did not come to saying it."""
        if turn.thread is None or turn.thread is not self._held.thread:
            return
        try:
            turn.thread.say_accepted()
        except TreadleError:
            logger.exception("what was said to a turn that never began could not be kept")
