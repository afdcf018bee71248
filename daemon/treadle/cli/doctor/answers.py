"""The models: which one answers for each agent, who said so, and whether it does.

Owns the one tiny call that is made to each. Refuses to know how a model is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import Reasons, choose_model, reasons
from treadle.cli.doctor.report import Check, Report
from treadle.errors import (
    ModelAuth,
    ModelRateLimited,
    ModelUnreachable,
    NoModel,
    RequestFailed,
    TreadleError,
)
from treadle.models.openai.client import shown_url
from treadle.models.provider import Models
from treadle.models.spec import DEFAULT_BASE_URL, ModelSpec
from treadle.turn.agent import Agent

# An endpoint that has said nothing by then keeps a person waiting at every prompt.
ENDPOINT_SECONDS = 20.0

# The embedded model is read from the disk first.
EMBEDDED_SECONDS = 90.0

# Whatever it answers, the answer is short, and so is the bill.
PROMPT = "Answer with the one word: ok"


@dataclass(slots=True)
class Asked:
    """A distinct model, the agents it answers for with the place that names it, and how it went.

    `answers` is None while nobody has asked it.
    """

    spec: ModelSpec
    why: Reasons
    agents: dict[str, str] = field(default_factory=dict)
    answers: bool | None = None
    seconds: float | None = None
    error: TreadleError | None = None


async def look_at_models(
    report: Report,
    agents: Iterable[AgentDefinition],
    config: Config,
    cache: Path,
    *,
    offline: bool,
    timeout_seconds: float | None,
) -> None:
    """Tell which model answers for each agent, and ask each distinct one.

    Args:
        report: gets what was found.
        agents: those whose files can be used.
        config: the person's configuration.
        cache: where the embedded model lies.
        offline: ask none of them.
        timeout_seconds: how long each may take, in place of the bounds above.
    """
    asked = _distinct(report, agents, config)
    if not offline:
        models = Models(cache)
        try:
            calls = [
                _ask(models, each, timeout_seconds) for each in asked if _can_run(report, each)
            ]
            await asyncio.gather(*calls)
        finally:
            await models.close()
    report.models = [_plain(each) for each in asked]
    report.checks += [_check(each, offline=offline) for each in asked if _can_run(report, each)]


def needs_embedded(agents: Iterable[AgentDefinition], config: Config) -> bool:
    """Whether the embedded model answers for one of the agents."""
    for agent in agents:
        # One whose key is missing has an endpoint.
        with contextlib.suppress(NoModel):
            if choose_model(agent, config, os.environ).kind == "embedded":
                return True
    return False


def _distinct(report: Report, agents: Iterable[AgentDefinition], config: Config) -> list[Asked]:
    """Gather agents by their model; one whose key's variable is not set is a problem at once."""
    asked: dict[ModelSpec, Asked] = {}
    for agent in agents:
        why = reasons(agent, config, os.environ)
        try:
            spec = choose_model(agent, config, os.environ)
        except NoModel as error:
            fix = f"export {why.key_variable}=…"
            report.checks.append(Check(f"agent/{agent.name}", "problem", error.message, fix))
            continue
        asked.setdefault(spec, Asked(spec, why)).agents[agent.name] = why.model
    return list(asked.values())


def _can_run(report: Report, asked: Asked) -> bool:
    """Whether there is a point in asking: what is not installed has been told already."""
    return asked.spec.kind != "embedded" or bool(report.embedded.get("canRun"))


async def _ask(models: Models, asked: Asked, timeout_seconds: float | None) -> None:
    """Make one call and note how it went; an answer that has begun counts."""
    bound = EMBEDDED_SECONDS if asked.spec.kind == "embedded" else ENDPOINT_SECONDS
    begun: list[object] = []
    agent = Agent().run(models.completion(asked.spec)).on("delta", lambda _, it: begun.append(it))
    start = time.monotonic()
    try:
        async with asyncio.timeout(timeout_seconds or bound) as timeout:
            await agent.start(PROMPT)
        asked.answers = True
    except TimeoutError:
        asked.answers = bool(begun)
        if not begun:
            asked.error = ModelUnreachable(
                f"it did not answer within {timeout_seconds or bound:g} s"
                if timeout.expired()
                else "it did not answer in time"
            )
    except TreadleError as error:
        asked.answers, asked.error = False, error
    asked.seconds = round(time.monotonic() - start, 3)


def _plain(asked: Asked) -> dict[str, Any]:
    plain: dict[str, Any] = {"model": asked.spec.model, "agents": asked.agents}
    if asked.spec.kind == "endpoint":
        plain |= {
            "baseUrl": _url(asked.spec),
            "baseUrlFrom": asked.why.base_url,
            "keyVariable": asked.why.key_variable,
            "keyIsSet": bool(asked.spec.api_key),
        }
    plain["answers"] = asked.answers
    if asked.seconds is not None:
        plain["seconds"] = asked.seconds
    if asked.error is not None:
        plain["error"] = {"reason": _reason(asked.error), "message": asked.error.message}
    return plain


def _check(asked: Asked, *, offline: bool) -> Check:
    name = f"model/{asked.spec.model}"
    said_by = ", ".join(f"{agent} ({place})" for agent, place in asked.agents.items())
    where = f" at {_url(asked.spec)}" if asked.spec.kind == "endpoint" else ""
    whom = f"for {said_by}{where}"
    if offline:
        return Check(name, "ok", f"is to answer {whom}; not asked, because of --offline")
    if asked.error is not None:
        failure = f"{asked.error.message} [{_reason(asked.error)}]"
        return Check(name, "problem", f"should answer {whom}: {failure}", _fix(asked))
    return Check(name, "ok", f"answers {whom}; it did in {asked.seconds:.1f} s")


def _fix(asked: Asked) -> str:
    """Say what mends a model that fails, by the kind of its failure."""
    error, url = asked.error, _url(asked.spec)
    if isinstance(error, NoModel):
        return str(error.data["how"])
    if isinstance(error, ModelAuth):
        return f"export {asked.why.key_variable}=…  with a key that {url} takes"
    if isinstance(error, ModelRateLimited):
        return "wait, or use another key or model"
    if asked.spec.kind == "scripted":
        return f"mend the script {asked.spec.model.partition(':')[2]}"
    if isinstance(error, ModelUnreachable) and asked.spec.kind == "endpoint":
        place = {"environment": "OPENAI_BASE_URL", "agent": "the agent's file"}
        source = place.get(asked.why.base_url, asked.why.base_url)
        comes = "is the default" if source == "default" else f"comes from {source}"
        return f"curl -sS {url}/models  shows whether it runs; the address {comes}"
    if asked.spec.kind == "embedded":
        return "treadle model pull"
    return f"curl -sS {url}/models  lists the models it has; the name comes from {_named_by(asked)}"


def _url(spec: ModelSpec) -> str:
    return shown_url(spec.base_url or DEFAULT_BASE_URL)


def _named_by(asked: Asked) -> str:
    places = sorted(set(asked.agents.values()))
    names = {"environment": "TREADLE_MODEL", "agent": "the agent's file"}
    return " and ".join(names.get(place, place) for place in places)


def _reason(error: TreadleError) -> str:
    return error.reason if isinstance(error, RequestFailed) else "configuration"
