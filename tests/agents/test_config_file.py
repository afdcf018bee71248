"""`config.toml`: what it may say, and how a person is told what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.agents.config import (
    Config,
    DaemonSettings,
    ModelSettings,
    RetentionSettings,
    SecretSettings,
    SessionSettings,
    parse_config,
)
from treadle.errors import InvalidAgent
from treadle.tools.web.backend import SearchBackend

PATH = Path("/config/config.toml")


def test_an_empty_file_means_the_defaults() -> None:
    assert parse_config(PATH, b"") == Config(
        ModelSettings(None, None, None, 300.0, 4),
        SessionSettings(1800.0, 8, "file"),
        RetentionSettings(None, None),
        SecretSettings(()),
        (),
    )


def test_a_whole_file_is_read() -> None:
    text = b"""\xef\xbb\xbf
[models]
model = "gpt-5-mini"
base_url = "https://example.org/v1"
api_key_env = "OPENAI_API_KEY"
timeout_seconds = 60
max_retries = 0
[sessions]
idle_seconds = 1.5
turns_in_flight = 2
durability = "memory"
[retention]
days = 90
threads = 10000
[secrets]
names = ["GITHUB_TOKEN", "_x1"]
"""
    assert parse_config(PATH, text) == Config(
        ModelSettings("gpt-5-mini", "https://example.org/v1", "OPENAI_API_KEY", 60.0, 0),
        SessionSettings(1.5, 2, "memory"),
        RetentionSettings(90, 10_000),
        SecretSettings(("GITHUB_TOKEN", "_x1")),
    )


def test_a_search_backend_is_read() -> None:
    text = b"""
[search]
url = "https://api.search.example/web?q={query}"
api_key_env = "SEARCH_KEY"
header = "X-Subscription-Token"
"""
    assert parse_config(PATH, text) == Config(
        search=SearchBackend(
            "https://api.search.example/web?q={query}", "GET", "SEARCH_KEY", "X-Subscription-Token"
        )
    )
    text = b"[search]\nurl = 'http://127.0.0.1:8080/search'\nmethod = 'POST'\n"
    assert parse_config(PATH, text) == Config(
        search=SearchBackend("http://127.0.0.1:8080/search", "POST", None, "Authorization")
    )


@pytest.mark.parametrize("seconds", [0, 0.5, 3600])
def test_a_daemon_stays_for_so_long_and_with_0_for_good(seconds: float) -> None:
    text = f"[daemon]\nidle_exit_seconds = {seconds}\n".encode()
    assert parse_config(PATH, text) == Config(daemon=DaemonSettings(seconds))


def test_a_secret_too_short_to_be_hidden_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHORT", " 1234567 ")
    monkeypatch.setenv("LONG", "12345678")
    monkeypatch.delenv("UNSET", raising=False)
    text = b'[secrets]\nnames = ["SHORT", "LONG", "UNSET"]\n'
    assert parse_config(PATH, text) == Config(
        secrets=SecretSettings(("SHORT", "LONG", "UNSET")),
        notices=(
            "[secrets] SHORT has a value of fewer than 8 characters, which may be part of any "
            "text, so it is not hidden; take a longer one",
        ),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]", "there is no key 'model'. Did you mean models? The keys are: models, sessions"),
        ("[daemon]\nidle_exit_seconds = -1", "[daemon] idle_exit_seconds must be a number of"),
        ("models = 3", "models must be a table"),
        ("[[models]]", "models must be a table"),
        ("[models]\nmodle = 'x'", "[models] there is no key 'modle'. Did you mean model?"),
        ("[models]\nmodel = 5", "[models] model must be text, not 5"),
        ("[models]\nbase_url = 'ftp://x'", "[models] base_url must be an http:// or https:// addr"),
        ("[models]\ntimeout_seconds = 0", "[models] timeout_seconds must be a number of seconds"),
        ("[models]\ntimeout_seconds = nan", "[models] timeout_seconds must be a number of second"),
        ("[models]\ntimeout_seconds = inf", "[models] timeout_seconds must be a number of second"),
        ("[models]\ntimeout_seconds = true", "[models] timeout_seconds must be a number of secon"),
        ("[models]\nmax_retries = 11", "[models] max_retries must be a whole number from 0 to 10"),
        ("[models]\nmax_retries = -1", "[models] max_retries must be a whole number from 0 to 10"),
        ("[models]\nmax_retries = 1.0", "[models] max_retries must be a whole number from 0 to"),
        ("[sessions]\ndurability = 'disk'", "[sessions] durability must be one of file, memory"),
        ("[sessions]\nturns_in_flight = 0", "[sessions] turns_in_flight must be a whole number"),
        ("[retention]\ndays = 0", "[retention] days must be a whole number from 1 to 36500, not 0"),
        ("[retention]\ndays = 0.5", "[retention] days must be a whole number from 1"),
        ("[retention]\nthreads = true", "[retention] threads must be a whole number from 1"),
        ("[retention]\nage = 3", "[retention] there is no key 'age'. The keys are: days, threads"),
        ("[search]\nmethod = 'GET'", "[search] needs url, the address of a search backend"),
        ("[search]\nurl = 'https://s.example/'", "[search] url must hold {query} where the words"),
        ("[search]\nurl = 'https://s.example/{query}'\nmethod = 'POST'", "and url holds none"),
        ("[search]\nurl = 'https://{query}.example/'", "[search] url cannot be asked: The host of"),
        (
            "[search]\nurl = 'ftp://s.example/{query}'",
            "[search] url must be an http:// or https://",
        ),
        ("[search]\nurl = 'https://a:b@s.example/'", "[search] url must hold no user name or pass"),
        ("[search]\nmethod = 'PUT'", "[search] method must be one of GET, POST, not 'PUT'"),
        ("[search]\nheader = 'X Key'", "[search] header must be the name of an HTTP header"),
        ("[search]\nquery = 'x'", "[search] there is no key 'query'. The keys are: url, method"),
        ("[secrets]\nnames = 'X'", "[secrets] names must be a list of names of environment"),
        ("[secrets]\nnames = ['X', 'X']", "[secrets] names names X twice"),
        ("[secrets]\nvalues = ['X']", "[secrets] there is no key 'values'"),
        ("[sessions]\nidle_seconds = -1", "[sessions] idle_seconds must be a number of seconds"),
        ("[models\n[sessions]", "(at line 1, column 8)"),
        ("[models]\nmodel='a'\nmodel='b'\n", "line 3"),
        ("a = " + "[" * 5000, "it is nested too deeply"),
        ("#" * (64 * 1024 + 1), "larger than 64 KiB"),
        ("a" + ".a" * 100_000 + " = 1", "larger than 64 KiB"),
        ("a" + ".a" * 501 + " = 1", "a line has more than 500 dots; split it"),
    ],
)
def test_what_is_wrong_names_file_key_and_what_is_valid(text: str, message: str) -> None:
    with pytest.raises(InvalidAgent) as caught:
        parse_config(PATH, text.encode())
    assert caught.value.data == {"path": str(PATH)}
    assert caught.value.message.startswith("config.toml: ")
    assert message in caught.value.message


def test_a_file_that_is_no_text_says_so_and_a_key_is_never_repeated() -> None:
    with pytest.raises(InvalidAgent, match="not UTF-8"):
        parse_config(PATH, b"\xff")
    with pytest.raises(InvalidAgent) as caught:
        parse_config(PATH, b'[models]\napi_key_env = "sk-secret"')
    assert "sk-secret" not in caught.value.message
    with pytest.raises(InvalidAgent, match="never hold a secret itself") as caught:
        parse_config(PATH, b'[secrets]\nnames = ["GITHUB_TOKEN", "ghp-secret"]')
    assert "ghp-secret" not in caught.value.message
