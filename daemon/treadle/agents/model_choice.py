"""Which model answers for an agent, at which endpoint and with whose key.

An agent's file comes before `config.toml`, that before the environment, each thing by itself;
but a key goes only to the endpoint that it was written for.
Owns that order. Refuses to know how a model is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.errors import NoModel
from treadle.models.spec import DEFAULT_BASE_URL, EMBEDDED, SCRIPTED_PREFIX, ModelSpec

MODEL_VARIABLE = "TREADLE_MODEL"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLE = "OPENAI_API_KEY"

# Every variable that a key was looked for in, so that whoever shows text knows what to leave out.
key_variables: set[str] = {API_KEY_VARIABLE}


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
    sources = [
        _Source(definition.model, definition.base_url, definition.api_key_env),
        _Source(config.models.model, config.models.base_url, config.models.api_key_env),
        _from_environment(environ),
    ]
    model = next((source.model for source in sources if source.model), None)
    if model is None or model == EMBEDDED.model:
        return EMBEDDED
    if is_local(model):
        return ModelSpec("scripted", model)
    base_url = _base_url(sources)
    return ModelSpec(
        "endpoint",
        model,
        base_url,
        _key(sources, base_url, environ),
        config.models.timeout_seconds,
    )


def is_local(model: str) -> bool:
    """Whether a model of this name sends nothing anywhere."""
    return model == EMBEDDED.model or model.startswith(SCRIPTED_PREFIX)


@dataclass(frozen=True, slots=True)
class _Source:
    """What one place says of models; `key_is_named`: its variable is named, so it must be set."""

    model: str | None
    base_url: str | None
    key_variable: str | None
    key_is_named: bool = True


def _from_environment(environ: Mapping[str, str]) -> _Source:
    return _Source(
        environ.get(MODEL_VARIABLE, "").strip() or None,
        environ.get(BASE_URL_VARIABLE, "").strip() or None,
        API_KEY_VARIABLE,
        key_is_named=False,
    )


def _base_url(sources: list[_Source]) -> str | None:
    """Return the endpoint that the first of some sources means: its own, else the next one's."""
    return next((source.base_url for source in sources if source.base_url), None)


def _key(sources: list[_Source], base_url: str | None, environ: Mapping[str, str]) -> str:
    """Return the first key that was written for this endpoint; empty where there is none.

    A source's key is meant for the endpoint which that source, read alone with those behind it,
    would use. So an agent's own `base_url` never receives the key of another.
    """
    for number, source in enumerate(sources):
        if source.key_variable is None or not _same(_base_url(sources[number:]), base_url):
            continue
        key_variables.add(source.key_variable)
        key = environ.get(source.key_variable, "").strip()
        if not key and source.key_is_named:
            raise NoModel(
                f"the environment variable {source.key_variable}, which should hold the model's "
                "key, is not set",
                how=f"set {source.key_variable} in the environment that Treadle is started from, "
                "or name another variable in api_key_env",
            )
        return key
    return ""


def _same(one: str | None, other: str | None) -> bool:
    return (one or DEFAULT_BASE_URL).rstrip("/") == (other or DEFAULT_BASE_URL).rstrip("/")
