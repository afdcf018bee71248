"""The order of a turn's layers: the one place that holds it.

Order is policy, so it stands here to be read at once:

    SessionLog        history is there first, and whatever follows is kept
    SystemPrompt      before the loaded history
    Skills            what there is to read besides, below the instructions
    ToolResultLoop    everything below sees every pass
    Steering          what is said meanwhile enters between two passes, and is kept at any end
    MaxIterations     the loop's guard
    an agent's own    sees every pass, as the agent's file says
    Compaction        what the window does not take goes before each model call
    Tools             one model call and the results of what it called
    Retry             that one model call, and no tool, is made again where it failed
    completion
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treadle.compaction.compactor import Compactor
from treadle.permissions.policy import Policy
from treadle.sandbox.sandbox import Sandbox
from treadle.stack.stack import App, LayerFactory
from treadle.thread.thread import Thread
from treadle.tools.pipeline import DEFAULT
from treadle.tools.session import ToolSession
from treadle.tools.skills import Skill
from treadle.tools.tool import CallEnv, Tool, ToolSource
from treadle.turn.agent import Agent
from treadle.turn.compaction import Compaction
from treadle.turn.env import Env
from treadle.turn.loop import ToolResultLoop
from treadle.turn.max_iterations import MaxIterations, ModelCalls
from treadle.turn.retry import DEFAULT_MAX_RETRIES, Retry
from treadle.turn.session_log import SessionLog
from treadle.turn.skills import Skills
from treadle.turn.steering import Inbox, Steering
from treadle.turn.system_prompt import SystemPrompt
from treadle.turn.tools import Tools


def default_agent(
    *,
    thread: Thread,
    instructions: str,
    max_turns: int,
    tools: Sequence[Tool],
    sandbox: Sandbox,
    completion: App[Env],
    policy: Policy | None = None,
    session: ToolSession | None = None,
    inbox: Inbox | None = None,
    max_retries: int = DEFAULT_MAX_RETRIES,
    own_layers: Sequence[tuple[LayerFactory[Env], Mapping[str, Any]]] = (),
    pipeline: App[CallEnv] = DEFAULT,
    skills: Sequence[Skill] = (),
    calls: ModelCalls | None = None,
    source: ToolSource | None = None,
    compactor: Compactor | None = None,
) -> Agent:
    """Stack the layers of an agent that the daemon runs.

    Args:
        thread: where its turns are kept; opened and closed by the caller.
        instructions: the system prompt's text.
        max_turns: how many model calls one prompt may make.
        tools: what the model may call.
        sandbox: where those tools may act.
        completion: the model.
        policy: what those tools may do; read-only if absent.
        session: what lives from one tool call to the next, also in another turn.
        inbox: what is said to a turn while it runs; without one nothing can be.
        max_retries: how often one model call is made again.
        own_layers: the agent's own layers and what each is made with, outermost first.
        pipeline: what each call of a tool runs through.
        skills: what the model is told that it can read.
        calls: a count of model calls that others take from too.
        source: brings further tools for each pass.
        compactor: the session's, for the same thread; without one nothing is compacted.
    """
    inbox = inbox or Inbox()
    agent = (
        Agent()
        .use(SessionLog, thread=thread)
        .use(SystemPrompt, text=instructions)
        .use(Skills, skills=skills)
        .use(ToolResultLoop, inbox=inbox)
        .use(Steering, inbox=inbox)
        .use(MaxIterations, limit=max_turns, calls=calls)
    )
    for layer, options in own_layers:
        agent.use(layer, **options)
    if compactor is not None:
        agent.use(Compaction, compactor=compactor, tools=tools, source=source)
    return (
        agent.use(
            Tools,
            tools=tools,
            source=source,
            sandbox=sandbox,
            policy=policy,
            session=session,
            pipeline=pipeline,
        )
        .use(Retry, max_retries=max_retries)
        .run(completion)
    )
