"""Which model answers, where, and with whose key: the whole of it as a table."""

from __future__ import annotations

import itertools

import pytest

from treadle.agents.config import Config, ModelSettings
from treadle.agents.definition import AgentDefinition
from treadle.agents.model_choice import choose_model, summary_model
from treadle.errors import NoModel
from treadle.models.spec import EMBEDDED, ModelSpec

A, C, E = "https://agent.example/v1", "https://config.example/v1", "https://env.example/v1"
OPENAI = "https://api.openai.com/v1"
KEYS = {"A_KEY": "agent's", "C_KEY": "config's", "OPENAI_API_KEY": "env's"}


def _choose(agent: dict[str, str], config: dict[str, str], environ: dict[str, str]) -> ModelSpec:
    return choose_model(
        AgentDefinition("x", **agent),  # type: ignore[arg-type] # texts for text fields only
        Config(ModelSettings(**config)),  # type: ignore[arg-type] # texts for text fields only
        {"A_KEY": "agent's", "C_KEY": "config's", **environ},
    )


def _at(model: str, base_url: str | None = None, key: str = "") -> ModelSpec:
    return ModelSpec("endpoint", model, base_url, key)


ENV_KEY = {"OPENAI_API_KEY": "env's"}
ENV_URL = {"OPENAI_BASE_URL": E}
ENV_MODEL = {"TREADLE_MODEL": "e"}


@pytest.mark.parametrize(
    ("agent", "config", "environ", "spec"),
    [
        # Nothing names a model: the embedded one, whatever else there is.
        ({}, {}, {}, EMBEDDED),
        ({}, {}, ENV_KEY, EMBEDDED),
        ({}, {}, {**ENV_KEY, **ENV_URL}, EMBEDDED),
        ({}, {"base_url": C, "api_key_env": "C_KEY"}, ENV_KEY, EMBEDDED),
        ({"base_url": A, "api_key_env": "A_KEY"}, {}, {}, EMBEDDED),
        ({}, {}, {"TREADLE_MODEL": " ", **ENV_KEY}, EMBEDDED),
        # The environment alone.
        ({}, {}, ENV_MODEL, _at("e")),
        ({}, {}, {**ENV_MODEL, **ENV_KEY}, _at("e", None, "env's")),
        ({}, {}, {**ENV_MODEL, **ENV_KEY, **ENV_URL}, _at("e", E, "env's")),
        # config.toml comes before it, each thing by itself.
        ({}, {"model": "c"}, {**ENV_MODEL, **ENV_KEY, **ENV_URL}, _at("c", E, "env's")),
        ({}, {"model": "c", "base_url": C}, {**ENV_KEY, **ENV_URL}, _at("c", C, "")),
        ({}, {"model": "c", "base_url": C}, ENV_KEY, _at("c", C, "")),
        (
            {},
            {"model": "c", "base_url": C, "api_key_env": "C_KEY"},
            ENV_KEY,
            _at("c", C, "config's"),
        ),
        ({}, {"model": "c", "api_key_env": "C_KEY"}, ENV_KEY, _at("c", None, "config's")),
        ({}, {"base_url": C, "api_key_env": "C_KEY"}, ENV_MODEL, _at("e", C, "config's")),
        # The agent's file comes before both.
        ({"model": "a"}, {}, ENV_MODEL, _at("a")),
        ({"model": "a"}, {}, {**ENV_MODEL, **ENV_KEY, **ENV_URL}, _at("a", E, "env's")),
        (
            {"model": "a"},
            {"model": "c", "base_url": C, "api_key_env": "C_KEY"},
            ENV_KEY,
            _at("a", C, "config's"),
        ),
        (
            {"model": "a", "base_url": A, "api_key_env": "A_KEY"},
            {},
            ENV_KEY,
            _at("a", A, "agent's"),
        ),
        (
            {"model": "a", "api_key_env": "A_KEY"},
            {"base_url": C, "api_key_env": "C_KEY"},
            {},
            _at("a", C, "agent's"),
        ),
        ({"model": "a", "api_key_env": "A_KEY"}, {}, ENV_KEY, _at("a", None, "agent's")),
        # An agent's own endpoint is never sent the key of another.
        ({"model": "a", "base_url": A}, {}, ENV_KEY, _at("a", A)),
        ({"model": "a", "base_url": A}, {"api_key_env": "C_KEY"}, ENV_KEY, _at("a", A)),
        (
            {"model": "a", "base_url": A},
            {"model": "c", "base_url": C, "api_key_env": "C_KEY"},
            {**ENV_KEY, **ENV_URL},
            _at("a", A),
        ),
        ({"base_url": A}, {"model": "c", "base_url": C, "api_key_env": "C_KEY"}, {}, _at("c", A)),
        # The same endpoint named twice is one endpoint.
        (
            {"model": "a", "base_url": C + "/"},
            {"base_url": C, "api_key_env": "C_KEY"},
            {},
            _at("a", C + "/", "config's"),
        ),
        ({"model": "a", "base_url": OPENAI}, {}, ENV_KEY, _at("a", OPENAI, "env's")),
        # Some models are told by their name and need no endpoint and no key.
        ({"model": "embedded"}, {"model": "c"}, ENV_KEY, EMBEDDED),
        ({}, {"model": "embedded"}, {**ENV_MODEL, **ENV_KEY}, EMBEDDED),
        ({}, {}, {"TREADLE_MODEL": "embedded"}, EMBEDDED),
        (
            {"model": "scripted:/a.json", "api_key_env": "NO"},
            {},
            {},
            ModelSpec("scripted", "scripted:/a.json"),
        ),
        ({}, {"base_url": C}, {"TREADLE_MODEL": "scripted:b"}, ModelSpec("scripted", "scripted:b")),
    ],
)  # fmt: skip - one case, one entry
def test_the_model_that_answers(
    agent: dict[str, str], config: dict[str, str], environ: dict[str, str], spec: ModelSpec
) -> None:
    assert _choose(agent, config, environ) == spec


def test_a_named_variable_that_is_not_set_is_named_in_the_error() -> None:
    for agent, config in (
        ({"model": "a", "api_key_env": "MAIL_KEY"}, {}),
        ({"model": "a"}, {"api_key_env": "MAIL_KEY"}),
    ):
        with pytest.raises(NoModel) as caught:
            _choose(agent, config, {**ENV_KEY, "MAIL_KEY": " "})
        assert "MAIL_KEY" in caught.value.message
        assert caught.value.data["how"].startswith("set MAIL_KEY in the environment")


def test_the_time_out_is_the_configurations() -> None:
    spec = choose_model(
        AgentDefinition("x", model="a"),
        Config(ModelSettings(timeout_seconds=7.0)),
        {"OPENAI_API_KEY": "sk-1"},
    )
    assert spec == ModelSpec("endpoint", "a", None, "sk-1", 7.0)


def test_no_mixture_sends_a_key_to_an_endpoint_it_was_not_written_for() -> None:
    """Every combination of what three places may say: a key goes where its place points."""
    for has in itertools.product([False, True], repeat=6):
        agent = {"model": "m"}
        agent |= {"base_url": A} if has[0] else {}
        agent |= {"api_key_env": "A_KEY"} if has[1] else {}
        config = {"base_url": C} if has[2] else {}
        config |= {"api_key_env": "C_KEY"} if has[3] else {}
        environ = (ENV_URL if has[4] else {}) | (ENV_KEY if has[5] else {})
        spec = _choose(agent, config, environ)
        env_endpoint = E if has[4] else None
        config_endpoint = C if has[2] else env_endpoint
        assert spec.base_url == (A if has[0] else config_endpoint)
        allowed = {
            "": True,
            "agent's": True,
            "config's": spec.base_url == config_endpoint,
            "env's": spec.base_url == env_endpoint,
        }
        assert allowed[spec.api_key], (agent, config, environ, spec)


SCRIPTED = ModelSpec("scripted", "scripted:/a.jsonl")


@pytest.mark.parametrize(
    ("spec", "named", "chosen"),
    [
        (_at("m", A, "k"), None, _at("m", A, "k")),
        (_at("m", A, "k"), "m", _at("m", A, "k")),
        (_at("m", A, "k"), "small", _at("small", A, "k")),
        (_at("m", A, "k"), "embedded", EMBEDDED),
        (_at("m", A, "k"), "scripted:/a.jsonl", SCRIPTED),
        # What tells nobody anything has no summaries written elsewhere.
        (EMBEDDED, "small", EMBEDDED),
        (SCRIPTED, "small", SCRIPTED),
        (EMBEDDED, "scripted:/a.jsonl", SCRIPTED),
    ],
)
def test_summaries_are_written_at_the_models_own_endpoint(
    spec: ModelSpec, named: str | None, chosen: ModelSpec
) -> None:
    assert summary_model(spec, named) == chosen
