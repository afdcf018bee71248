"""Which model answers for an agent, at which endpoint and with whose key.

An agent's file comes before `config.toml`, that before the environment, each thing by itself;
but a key goes only to the endpoint that it was written for.
Owns that order. Refuses to know how a model is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.errors import NoModel
from treadle.models.spec import DEFAULT_BASE_URL, EMBEDDED, SCRIPTED_PREFIX, ModelSpec
from treadle.secrets import hold

MODEL_VARIABLE = "TREADLE_MODEL"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLE = "OPENAI_API_KEY"


def choose_model(
    definition: AgentDefinition, config: Config, environ: Mapping[str, str]
) -> ModelSpec:
    """Return the model that answers for an agent.

    A model is configured only when its name is known: without a name the embedded one answers,
    whatever endpoints and keys there are.

    Args:
        definition: the agent, as its session sees it.
        config: the person's configuration.
        environ: the daemon's environment.

    Raises:
        NoModel: the variable that should hold the key is not set; `how` names it.
    """
    sources = _sources(definition, config, environ)
    model, _ = _model(sources)
    if model is None or model == EMBEDDED.model:
        return EMBEDDED
    if is_local(model):
        return ModelSpec("scripted", model)
    base_url, _ = _base_url(sources)
    return ModelSpec(
        "endpoint",
        model,
        base_url,
        _key(sources, base_url, environ),
        config.models.timeout_seconds,
    )


def summary_model(spec: ModelSpec, named: str | None) -> ModelSpec:
    """Return the model that writes summaries: another one at the same endpoint, or the same.

    Args:
        spec: what answers for the agent; where that sends nothing anywhere, no summary does.
        named: the name of the other model.
    """
    if named is None or spec.model == named:
        return spec
    if is_local(named):
        return EMBEDDED if named == EMBEDDED.model else ModelSpec("scripted", named)
    return spec if spec.kind != "endpoint" else replace(spec, model=named)


def named_model(
    definition: AgentDefinition, config: Config, environ: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return the name of the model that is meant, and which variable it cannot be had without.

    The variable is the one that should hold its key and is not set; None where nothing is missing.
    """
    try:
        return choose_model(definition, config, environ).model, None
    except NoModel:
        model, _ = _model(_sources(definition, config, environ))
        return model or "", reasons(definition, config, environ).key_variable


Place: TypeAlias = Literal["agent", "config.toml", "environment", "default"]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a model answers: which place names it, which its endpoint, and what holds its key."""

    model: Place
    base_url: Place
    key_variable: str | None


def reasons(definition: AgentDefinition, config: Config, environ: Mapping[str, str]) -> Reasons:
    """Tell where `choose_model` takes each thing from; the key itself is not looked at."""
    sources = _sources(definition, config, environ)
    base_url, base_url_place = _base_url(sources)
    keyed = _keyed(sources, base_url)
    return Reasons(_model(sources)[1], base_url_place, keyed.key_variable if keyed else None)


def is_local(model: str) -> bool:
    """Whether a model of this name sends nothing anywhere."""
    return model == EMBEDDED.model or model.startswith(SCRIPTED_PREFIX)


@dataclass(frozen=True, slots=True)
class _Source:
    """What one place says of models; `key_is_named`: its variable is named, so it must be set."""

    place: Place
    model: str | None
    base_url: str | None
    key_variable: str | None
    key_is_named: bool = True


def _sources(
    definition: AgentDefinition, config: Config, environ: Mapping[str, str]
) -> list[_Source]:
    """Return the places that speak of models, the one that counts most first."""
    models = config.models
    return [
        _Source("agent", definition.model, definition.base_url, definition.api_key_env),
        _Source("config.toml", models.model, models.base_url, models.api_key_env),
        _from_environment(environ),
    ]


def _from_environment(environ: Mapping[str, str]) -> _Source:
    return _Source(
        "environment",
        environ.get(MODEL_VARIABLE, "").strip() or None,
        environ.get(BASE_URL_VARIABLE, "").strip() or None,
        API_KEY_VARIABLE,
        key_is_named=False,
    )


def _model(sources: list[_Source]) -> tuple[str | None, Place]:
    named = ((source.model, source.place) for source in sources if source.model)
    return next(named, (None, "default"))


def _base_url(sources: list[_Source]) -> tuple[str | None, Place]:
    """Return the endpoint that the first of some sources means: its own, else the next one's."""
    named = ((source.base_url, source.place) for source in sources if source.base_url)
    return next(named, (None, "default"))


def _key(sources: list[_Source], base_url: str | None, environ: Mapping[str, str]) -> str:
    """Return the key for this endpoint; empty where there is none."""
    source = _keyed(sources, base_url)
    if source is None or source.key_variable is None:
        return ""
    hold(source.key_variable)
    key = environ.get(source.key_variable, "").strip()
    if not key and source.key_is_named:
        raise NoModel(
            f"the environment variable {source.key_variable}, which should hold the model's "
            "key, is not set",
            how=f"set {source.key_variable} in the environment that Treadle is started from, "
            "or name another variable in api_key_env",
        )
    return key


def _keyed(sources: list[_Source], base_url: str | None) -> _Source | None:
    """Return the first source whose key was written for this endpoint.

    A source's key is meant for the endpoint which that source, read alone with those behind it,
    would use. So an agent's own `base_url` never receives the key of another.
    """
    for number, source in enumerate(sources):
        meant, _ = _base_url(sources[number:])
        if source.key_variable is not None and _same(meant, base_url):
            return source
    return None


def _same(one: str | None, other: str | None) -> bool:
    return (one or DEFAULT_BASE_URL).rstrip("/") == (other or DEFAULT_BASE_URL).rstrip("/")
