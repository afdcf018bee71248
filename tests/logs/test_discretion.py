"""What the log tells: what was done and how it ended, and never what was said or a secret."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon import RpcError, daemon
from support.model_server import Answer, ModelServer
from support.person import pair, write_agent
from support.waiting import PATIENCE_SECONDS
from treadle.errors import ConfigurationError
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE, Folders
from treadle.server.log import (
    LEVEL_VARIABLE,
    LEVELS,
    ask_level,
    start_log,
    stop_log,
    withdraw_level,
)
from treadle.server.log.file import FILE_NAME
from treadle.version import __version__

INDISCREET = str(Path(__file__).parents[1] / "server" / "drivers" / "indiscreet.py")

# Words that stand nowhere else; the last one is what a driver fails at.
PROMPT = "walrus umbrella"
RESULT = "periwinkle tureen"
ANSWER = "marzipan zeppelin"
INSTANCE = "gondola"
FAIL = "FAIL"

# In the test's folder: what the scripted model says.
SCRIPT = "script.jsonl"

# One whose variable is known, one that is told by its name, one that only an agent's file names.
KEYS = {
    "OPENAI_API_KEY": "sk-0123456789abcdef",
    "MY_TOKEN": "tok'en-fedcba98\\76543210",
    "ODDLY_NAMED": "key-of-an-agents-own",
}


@pytest.fixture
def talk(tmp_path: Path) -> dict[str, str]:
    """A script in which a tool is called, and the environment with keys that runs it."""
    (tmp_path / "notes.txt").write_text(RESULT)
    call = {"calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]}
    script = tmp_path / SCRIPT
    script.write_text(f"{json.dumps(call)}\n{json.dumps({'text': ANSWER})}\n")
    return {"TREADLE_MODEL": f"scripted:{script}", **KEYS}


def logged() -> str:
    """Return everything in the folder of logs."""
    return "".join(path.read_text() for path in sorted(Path(os.environ[LOG_VARIABLE]).iterdir()))


@pytest.mark.parametrize("level", LEVELS)
async def test_nothing_that_was_said_and_no_key_is_in_any_log(
    talk: dict[str, str], tmp_path: Path, level: str
) -> None:
    program = (sys.executable, INDISCREET, "serve", "--log-level", level)
    with (tmp_path / "stderr").open("wb") as stderr:
        async with (
            ModelServer(lambda _: Answer(status=401, error={"message": "no"})) as server,
            daemon(env=talk, program=program, stderr=stderr, initialize=False) as client,
        ):
            write_agent("keyed", model="m", base_url=server.base_url, api_key_env="ODDLY_NAMED")
            await client.initialize(rootUri=tmp_path.as_uri())
            # An agent whose key's variable is known from its file alone.
            with pytest.raises(RpcError, match="model_auth"):
                await client.request("session/prompt", pair(INSTANCE, "keyed", prompt=PROMPT))
            done = await client.request("session/prompt", pair(INSTANCE, prompt=PROMPT))
            assert done["text"] == ANSWER
            with pytest.raises(RpcError, match="failed inside the daemon"):
                await client.request("session/prompt", pair(INSTANCE, prompt=f"{PROMPT} {FAIL}"))
            assert await client.end() == 0
    assert RESULT in json.dumps(client.log)  # so all of it was there to be told
    for text in (logged(), (tmp_path / "stderr").read_text()):
        assert "ExceptionGroup\n" in text
        assert "caused by RuntimeError\n" in text
        assert "sent %s\n" in text
        for word in (*PROMPT.split(), *RESULT.split(), *ANSWER.split(), FAIL, INSTANCE, "notes"):
            assert word not in text
        for key in KEYS.values():
            assert key not in text
            assert repr(key)[1:-1] not in text
        names = " ".join(f"[secret {name}]" for name in KEYS)
        assert f'with the keys {names} and "{names}"\n' in text or level == "error"


async def test_each_request_is_told_with_its_end_and_nothing_of_its_params(
    talk: dict[str, str],
) -> None:
    async with daemon(env=talk) as client:
        await client.request("session/list")
        with pytest.raises(RpcError):
            await client.request("session/read", pair(INSTANCE))
        with pytest.raises(RpcError):
            await client.request(PROMPT)
        with pytest.raises(RpcError):
            await client.request("session/list", {"agent": 7})
        assert await client.end() == 0
    told = re.findall(
        r"\S+ (\d+) (\w+) treadle\.server\.dispatch: (.+) after \d+\.\d{3} s\n", logged()
    )
    assert told == [
        (str(client.process.pid), "info", said)
        for said in (
            "session/list: ok",
            "session/read: unknown_session",
            "an unknown method: -32601",
            "session/list: -32602",
            "shutdown: ok",
        )
    ]


async def test_turns_are_told_with_their_session_hidden_in_a_hash(
    talk: dict[str, str], tmp_path: Path
) -> None:
    replies = ({"text": "one"}, {"error": {"reason": "model_auth", "message": ANSWER}})
    (tmp_path / SCRIPT).write_text("\n".join(map(json.dumps, replies)))
    async with daemon(env=talk) as client:
        await client.request("session/prompt", pair(INSTANCE, prompt="Hi"))
        with pytest.raises(RpcError):
            await client.request("session/prompt", pair(INSTANCE, prompt="Hi"))
        await client.request("session/close", pair(INSTANCE))
        assert await client.end() == 0
    name = f"assistant/{hashlib.sha256(INSTANCE.encode()).hexdigest()[:8]}"
    assert re.findall(r"treadle\.runtime\.(?:turn_runner|holding): (.*)\n", logged()) == [
        f"{name} is open, with 0 messages",
        f"turn 1 of {name}: end_turn after 1 steps",
        f"turn 2 of {name}: error (model_auth) after 1 steps",
        f"{name} is held no longer",
    ]


async def test_the_log_begins_with_who_logs_and_where_everything_lies() -> None:
    async with daemon() as client:
        assert await client.end() == 0
    first = logged().splitlines()[0]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ info ", first)
    for said in (
        f"treadle {__version__} begins (process {client.process.pid}, Python ",
        f"data {os.environ[DATA_VARIABLE]}, config {os.environ[CONFIG_VARIABLE]}, cache ",
    ):
        assert said in first


async def test_the_end_is_told_with_its_cause() -> None:
    async with daemon() as client:
        assert await client.end() == 0
    said = [line.partition(": ")[2] for line in logged().splitlines()]
    assert "ending: the client said exit" in said
    assert re.fullmatch(r"ended with code 0 after \d\.\d{3} s of closing", said[-1])
    async with daemon() as client:
        client.stdin.close()
        assert await client.wait() == 0
    assert "ending: the client has closed our input\n" in logged()


async def test_the_environment_sets_the_level_and_the_flag_comes_before_it() -> None:
    env = {LEVEL_VARIABLE: "Error"}
    async with daemon(env=env) as client:
        assert await client.end() == 0
    assert not os.path.exists(os.environ[LOG_VARIABLE])  # noqa: ASYNC240, PTH110 - nothing else runs
    async with daemon("--log-level", "info", env=env) as client:
        assert await client.end() == 0
    assert "shutdown: ok" in logged()


async def test_a_level_that_is_none_costs_a_warning_in_the_environment_and_a_start_as_flag() -> (
    None
):
    async with daemon(env={LEVEL_VARIABLE: "loud"}) as client:
        assert await client.end() == 0
    assert "TREADLE_LOG_LEVEL is no level; it can be debug, info, warning, error\n" in logged()
    async with daemon("--log-level", "loud", initialize=False) as client:
        assert await client.wait() == 2


def test_a_command_for_people_logs_to_the_same_file_and_keeps_standard_error_quiet(
    talk: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, INDISCREET, "call", "session/prompt", json.dumps(pair("i", prompt="Hi"))],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, **talk},
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "treadle.server.dispatch: session/prompt: ok after" in logged()
    assert "treadle.tools.layers.failures: the tool read raised\n" in logged()


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Path]:
    """Log in this process, to a folder; what others log is heard again afterwards."""
    folders = Folders(*map(tmp_path.joinpath, ("data", "config", "cache", "logs")))
    start_log(folders)
    yield folders.logs / FILE_NAME
    stop_log()


def test_the_level_can_be_changed_at_run_time(begun: Path) -> None:
    ours = logging.getLogger("treadle.test")
    for level in ("warning", "debug", "info"):
        ask_level("an editor", level)
        ours.debug("fine at %s", level)
        ours.info("news at %s", level)
        ours.warning("trouble at %s", level)
    with pytest.raises(ConfigurationError, match="it can be debug, info, warning, error"):
        ask_level("an editor", "loud")
    withdraw_level("an editor")
    stop_log()
    assert [line.partition("test: ")[2] for line in begun.read_text().splitlines()[1:]] == [
        "trouble at warning",
        "fine at debug",
        "news at debug",
        "trouble at debug",
        "news at info",
        "trouble at info",
    ]


def test_a_line_is_one_line_and_nothing_that_a_terminal_obeys(begun: Path) -> None:
    logging.getLogger("treadle.test").warning("a\n\x1b[31m%s\u202e\ud800", "b\rc")
    stop_log()
    _, line = begun.read_text().splitlines()
    assert line.endswith(r"treadle.test: a\n\x1b[31mb\rc\u202e\ud800")


def test_lines_without_end_are_cut(begun: Path) -> None:
    logging.getLogger("treadle.test").warning("x" * 1_000_000)
    stop_log()
    assert begun.stat().st_size < 5000


def test_of_several_clients_whoever_wants_the_most_is_told_it_while_it_is_there(
    begun: Path,
) -> None:
    ours = logging.getLogger("treadle.test")
    ask_level("one", "error")
    ask_level("other", "debug")
    ours.debug("with both")
    withdraw_level("other")
    ours.info("with one")
    withdraw_level("one")
    ours.debug("with none")
    ours.info("alone")
    stop_log()
    told = [line.partition("test: ")[2] for line in begun.read_text().splitlines()[1:]]
    assert told == ["with both", "alone"]
