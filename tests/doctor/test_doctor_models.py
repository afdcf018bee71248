"""What `treadle doctor` says of models: who answers, who said so, and what mends one that fails."""

from __future__ import annotations

from pathlib import Path

from support.doctor import doctor, doctor_beside
from support.model_server import Answer, ModelServer
from support.person import on, write_agent, write_config

# It looks like one, so that it would be seen where it is told.
KEY = "sk-0123456789abcdef"

# The discard port: it needs rights to listen on, and nobody does.
NOBODY_LISTENS = "http://127.0.0.1:9/v1"

# An answer begins sooner than this, also while a busy machine first loads what asks for it.
BEGUN_SECONDS = 5


async def test_offline_asks_no_model_and_says_so() -> None:
    async with ModelServer(lambda _: Answer("ok")) as server:
        told = await doctor_beside("--offline", "--json", **on(server))
        assert server.connections == 0
    assert told.code == 0
    assert told.check("model/test-model")["detail"].endswith("not asked, because of --offline")
    assert told.json["models"][0]["answers"] is None


async def test_each_distinct_model_is_asked_once_and_told_with_who_decided() -> None:
    async with ModelServer(lambda _: Answer("ok")) as server:
        write_config(f'[models]\nmodel = "common"\nbase_url = "{server.base_url}"\n')
        write_agent("one")
        write_agent("two", model="special")
        told = await doctor_beside("--json", OPENAI_API_KEY=KEY)
        assert sorted(request["model"] for request in server.requests) == ["common", "special"]
    assert (told.code, told.wrong) == (0, [])
    endpoint = {
        "baseUrl": server.base_url,
        "baseUrlFrom": "config.toml",
        "keyVariable": None,
        "keyIsSet": False,
        "answers": True,
    }
    agents = {"assistant": "config.toml", "one": "config.toml"}
    found = [
        {key: value for key, value in each.items() if key != "seconds"}
        for each in told.json["models"]
    ]
    assert found == [
        {"model": "common", "agents": agents, **endpoint},
        {"model": "special", "agents": {"two": "agent"}, **endpoint},
    ]


async def test_a_refused_key_is_told_with_its_variable_and_never_with_the_key() -> None:
    error = {"message": f"Incorrect API key provided: {KEY}"}
    async with ModelServer(lambda _: Answer(status=401, error=error)) as server:
        env = {**on(server), "OPENAI_API_KEY": KEY}
        told, shown = await doctor_beside("--json", **env), await doctor_beside(**env)
    (wrong,) = told.wrong
    assert (wrong["name"], wrong["status"]) == ("model/test-model", "problem")
    assert wrong["detail"].endswith("[model_auth]")
    assert wrong["fix"] == f"export OPENAI_API_KEY=…  with a key that {server.base_url} takes"
    model = told.json["models"][0]
    assert (model["keyVariable"], model["keyIsSet"]) == ("OPENAI_API_KEY", True)
    assert (model["answers"], model["error"]["reason"]) == (False, "model_auth")
    assert (told.code, shown.code) == (1, 1)
    assert KEY not in told.out + told.err + shown.out + shown.err


def test_an_endpoint_that_is_not_there_is_told_with_how_to_see_that() -> None:
    told = doctor("--json", TREADLE_MODEL="m", OPENAI_BASE_URL=NOBODY_LISTENS)
    (wrong,) = told.wrong
    assert wrong["detail"].endswith("[model_unreachable]")
    assert wrong["fix"] == (
        f"curl -sS {NOBODY_LISTENS}/models  shows whether it runs; "
        "the address comes from OPENAI_BASE_URL"
    )


async def test_an_endpoint_that_hangs_is_given_up() -> None:
    async with ModelServer(lambda _: Answer(delay_seconds=3600)) as server:
        told = await doctor_beside("--json", "--timeout", "0.5", **on(server))
    (wrong,) = told.wrong
    assert wrong["detail"].endswith("it did not answer within 0.5 s [model_unreachable]")


async def test_an_answer_that_has_begun_is_one() -> None:
    async with ModelServer(lambda _: Answer("ok and more", pause_after=1)) as server:
        told = await doctor_beside("--json", "--timeout", str(BEGUN_SECONDS), **on(server))
    assert (told.code, told.json["models"][0]["answers"]) == (0, True)


def test_a_script_that_is_broken_is_named(script: Path) -> None:
    script.write_text("{")
    told = doctor("--json")
    (wrong,) = told.wrong
    assert "is no reply" in wrong["detail"]
    assert wrong["fix"] == f"mend the script {script}"


def test_a_key_that_an_agent_names_and_nobody_sets_is_that_agents_problem(
    script: Path,
) -> None:
    write_agent("far", model="m", base_url=NOBODY_LISTENS, api_key_env="FAR_AWAY")
    told = doctor("--json")
    (wrong,) = told.wrong
    assert wrong["name"] == "agent/far"
    assert wrong["detail"].startswith("the environment variable FAR_AWAY")
    assert wrong["fix"] == "export FAR_AWAY=…"
