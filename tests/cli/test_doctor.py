"""`treadle doctor`, run as a person runs it, on each thing that can be wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.daemon import daemon
from support.model_server import Answer, ModelServer
from support.person import on, pair, stored, write_agent, write_config
from support.process import patience_with, posix_only
from support.waiting import PATIENCE_SECONDS
from treadle.folders import CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.models.embedded.fetch import part_path
from treadle.models.embedded.files import EMBEDDED_FILE, FILE_VARIABLE, cached_path
from treadle.thread.files import make_folder
from treadle.thread.paths import THREADS_FOLDER
from treadle.version import __version__

# It looks like one, so that it would be seen where it is told.
KEY = "sk-0123456789abcdef"

# The discard port: it needs rights to listen on, and nobody does.
NOBODY_LISTENS = "http://127.0.0.1:9/v1"

# An answer begins sooner than this, also while a busy machine first loads what asks for it.
BEGUN_SECONDS = 5


@dataclass
class Told:
    """What one run said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def wrong(self) -> list[dict[str, str]]:
        """The checks that are not ok."""
        return [check for check in self.json["checks"] if check["status"] != "ok"]

    def check(self, name: str) -> dict[str, str]:
        (found,) = [check for check in self.json["checks"] if check["name"] == name]
        return found  # type: ignore[no-any-return]  # JSON


def doctor(*words: str, **env: str) -> Told:
    """Run the command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "doctor", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **env},
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return Told(done.returncode, done.stdout, done.stderr)


async def doctor_beside(*words: str, **env: str) -> Told:
    """Run the command while something of the test's own loop is at work."""
    return await asyncio.to_thread(doctor, *words, **env)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, where the embedded model is not."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scripted model that answers for every agent."""
    path = tmp_path / "script.jsonl"
    path.write_text('{"text": "ok"}\n')
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{path}")
    return path


def everything_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file with its time and its bytes."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


def test_where_all_is_well_it_says_so(script: Path, tmp_path: Path) -> None:
    told = doctor("--json")
    found = told.json
    free = {name: found["folders"][name].pop("freeBytes") for name in found["folders"]}
    assert all(size > 0 for size in free.values())
    seconds = found["models"][0].pop("seconds")
    assert 0 <= seconds < 20
    assert found["versions"].pop("platform")
    libraries = found["versions"].pop("libraries")
    assert {"msgspec", "openai", "pygls", "rich"} <= libraries.keys()
    assert None not in libraries.values()
    runtime = found["embedded"].pop("runtime")
    place = {"exists": False, "writable": True, "bytes": 0}
    folders = {
        "config": os.environ[CONFIG_VARIABLE],
        "data": os.environ[DATA_VARIABLE],
        "cache": os.environ[CACHE_VARIABLE],
        "logs": os.environ[LOG_VARIABLE],
    }
    not_yet = "is not there yet; it is made when it is needed"
    config = f"there is no {folders['config']}/config.toml, and none is needed"
    embedded = "its file is not on this machine (491 MB), and no agent needs it"
    model = f"answers for assistant (environment); it did in {seconds:.1f} s"
    assert found == {
        "ok": True,
        "versions": {
            "treadle": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
        },
        "folders": {name: {"path": path, **place} for name, path in folders.items()},
        "embedded": {"needed": False, "file": None, "whole": None, "canRun": False},
        "models": [
            {
                "model": f"scripted:{script}",
                "agents": {"assistant": "environment"},
                "answers": True,
            }
        ],
        "threads": {"count": 0, "bytes": 0, "held": [], "leftLocks": 0, "unread": 0},
        "checks": [
            {"name": name, "status": "ok", "detail": detail}
            for name, detail in {
                "libraries": f"all {len(libraries)} are installed",
                "terminal": "none: output goes elsewhere, as utf-8",
                **{f"folder/{name}": f"{path} {not_yet}" for name, path in folders.items()},
                "config.toml": config,
                "retention": "every thread is kept for ever",
                "agents": "1 can be used: assistant",
                "embedded": embedded,
                f"model/scripted:{script}": model,
                "threads": "0 stored (0 bytes)",
            }.items()
        ],
    }
    assert (told.code, told.err) == (0, "")
    assert runtime is None or isinstance(runtime, str)
    assert [path.name for path in tmp_path.iterdir()] == ["script.jsonl"]  # nothing was made


def test_a_person_reads_the_same_and_at_the_end_what_is_wrong(script: Path) -> None:
    well = doctor()
    assert (well.code, well.err) == (0, "")
    assert well.out.startswith(f"treadle {__version__}, Python ")
    assert well.out.endswith("\nok       threads: 0 stored (0 bytes)\nnothing is wrong\n")
    config = write_config("[daemon]\n")
    agent = write_agent("inbox", permisions="auto")
    ill = doctor()
    assert ill.code == 1
    *_, problem, warning, verdict = ill.out.splitlines()
    assert problem.startswith(
        "problem  agent/inbox: inbox.md, line 2: there is no key 'permisions'"
    )
    assert problem.endswith(f"  ->  ${{EDITOR:-vi}} {agent}")
    assert warning.startswith("warning  config.toml: [daemon] is not supported by this version")
    assert warning.endswith(f"  ->  ${{EDITOR:-vi}} {config}")
    assert verdict == "1 problem, 1 warning"


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


def test_a_broken_config_stops_no_other_check(script: Path) -> None:
    config = write_config("[models\n")
    told = doctor("--json")
    (wrong,) = told.wrong
    assert (wrong["name"], wrong["status"]) == ("config.toml", "problem")
    assert wrong["fix"] == f"${{EDITOR:-vi}} {config}"
    assert (told.code, told.json["models"]) == (1, [])
    assert told.check("threads")["status"] == "ok"


@posix_only
def test_a_folder_in_whose_place_is_a_file_is_told(script: Path) -> None:
    data = Path(os.environ[DATA_VARIABLE])
    data.write_text("")
    told = doctor("--json")
    (wrong,) = told.wrong
    assert wrong == {
        "name": "folder/data",
        "status": "problem",
        "detail": f"{data} is no folder",
        "fix": f"mv {data} {data}.old",
    }


@posix_only
def test_a_folder_that_leads_nowhere_is_told(script: Path) -> None:
    told = doctor("--json", TREADLE_DATA_DIR="~nobody-has-this-name/x")
    (wrong,) = told.wrong
    assert (wrong["name"], wrong["fix"]) == ("folders", "unset TREADLE_DATA_DIR")
    assert (told.code, told.json["folders"]) == (1, {})


def test_it_works_without_a_home(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", DATA_VARIABLE, CONFIG_VARIABLE, CACHE_VARIABLE, LOG_VARIABLE):
        monkeypatch.delenv(name)
    told = doctor("--json", "--offline")
    assert told.err == ""
    assert told.json["folders"].keys() == {"config", "data", "cache", "logs"}


@posix_only
def test_modes_that_let_others_in_are_told_with_the_command_that_closes_them(
    script: Path,
) -> None:
    write_thread("good")
    config = write_config("")
    threads = Path(os.environ[DATA_VARIABLE]) / THREADS_FOLDER
    logs = Path(os.environ[LOG_VARIABLE])
    make_folder(logs)
    assert doctor("--json").wrong == []
    for path in (config, threads, threads.parent, logs):
        path.chmod(0o777)
    told = doctor("--json")
    assert told.code == 1
    assert [(wrong["name"], wrong["status"]) for wrong in told.wrong] == [
        ("folder/config/modes", "warning"),
        ("folder/data/modes", "warning"),
        ("folder/logs/modes", "warning"),
    ]
    for wrong in told.wrong:
        subprocess.run(wrong["fix"], shell=True, check=True)
    assert doctor("--json").wrong == []


def test_a_half_fetched_model_and_a_damaged_one_are_told(cache: Path) -> None:
    target = cached_path(cache)
    target.parent.mkdir(parents=True)
    part_path(target).write_bytes(b"the first bytes")
    with target.open("wb") as file:
        file.truncate(EMBEDDED_FILE.size_bytes)  # sparse, so of the right size and nothing else
    told = doctor("--json")
    assert told.wrong == [
        {
            "name": "embedded",
            "status": "problem",
            "detail": f"{target} holds other bytes than it should",
            "fix": "treadle model pull",
        },
        {
            "name": "embedded/part",
            "status": "warning",
            "detail": f"{part_path(target)}: 15 bytes of a fetch that was interrupted",
            "fix": "treadle model pull, or treadle model remove",
        },
    ]
    assert told.json["embedded"]["whole"] is False


def test_the_embedded_model_that_is_needed_and_missing_is_a_problem() -> None:
    told = doctor("--json")
    (wrong,) = told.wrong
    assert (wrong["name"], wrong["status"]) == ("embedded", "problem")
    assert wrong["fix"] == "treadle model pull"


def write_thread(instance: str, *lines: str, end: str = "\n") -> Path:
    """Write a thread's file as it stands after its header."""
    path = stored("assistant", instance)
    make_folder(path.parent)
    header = {"thread": {"version": 1, "agent": "assistant", "instance": instance}}
    path.write_text("\n".join([json.dumps(header), *lines]) + end)
    return path


# The lines of a turn, as the journal writes them.
START = '{"turn":{"number":1,"event":"start"}}'
SAID = '{"role":"user","content":"Hi","turn":1}'
END = '{"turn":{"number":1,"event":"end","stop_reason":"end_turn"}}'


def test_threads_with_problems_are_told_each_with_its_command(script: Path) -> None:
    write_thread("good", START, SAID, END)
    torn = write_thread("torn", START, SAID, END, '{"role":"us', end="")
    damaged = write_thread("damaged", START, "no json", SAID, "nor this", END)
    write_thread("it's open", START, SAID)
    newer = write_thread("newer")
    newer.write_text('{"thread":{"version":99,"agent":"assistant","instance":"newer"}}\n')
    folder = stored("assistant", "folder")
    folder.mkdir()
    nobodys = folder.parent / "NOBODYS.jsonl"
    nobodys.write_text("")
    strange = folder.parent / "good.jsonl.tmp"
    strange.write_text("")
    before = everything_below(folder.parent)
    told = doctor("--json")
    assert everything_below(folder.parent) == before
    assert told.code == 1
    by_name = {wrong["name"]: wrong for wrong in told.wrong}
    resume = "treadle call session/resume "
    open_params = '{"agent": "assistant", "instance": "it\'s open"}'
    assert {name: (it["status"], it["detail"], it["fix"]) for name, it in by_name.items()} == {
        "thread/assistant/torn": (
            "warning",
            f"{torn} ends in half a line (11 bytes)",
            resume + '\'{"agent": "assistant", "instance": "torn"}\'',
        ),
        "thread/assistant/damaged": (
            "warning",
            f"2 lines of {damaged} cannot be read and are left out",
            f"${{EDITOR:-vi}} {damaged}",
        ),
        "thread/assistant/it's open": (
            "warning",
            "turn 1 was interrupted by a kill",
            resume + shlex.quote(open_params),
        ),
        "thread/assistant/newer": (
            "problem",
            f"{newer} was written by a newer Treadle",
            "pip install -U treadle",
        ),
        "thread/assistant/folder": (
            "problem",
            f"{folder} is a folder, so it cannot be a thread; move it away",
            f"ls -l {folder}",
        ),
        "thread/assistant/NOBODYS": (
            "warning",
            f"{nobodys}: neither its name nor its first line says whose thread this is",
            f"mv {nobodys} ~",
        ),
        "threads/left": ("warning", f"{strange} is no part of any thread", f"rm {strange}"),
    }


def test_the_commands_for_torn_and_unfinished_threads_mend_them(script: Path) -> None:
    write_thread("torn", START, SAID, END, '{"role":"us', end="")
    write_thread("open", START, SAID)
    told = doctor("--json")
    assert len(told.wrong) == 2
    for wrong in told.wrong:
        program, *words = shlex.split(wrong["fix"])
        assert program == "treadle"
        subprocess.run([sys.executable, "-m", "treadle", *words], check=True, capture_output=True)
    assert doctor("--json").wrong == []


async def test_a_thread_that_is_held_is_told_with_its_holder_and_is_no_problem(
    tmp_path: Path,
) -> None:
    script = tmp_path / "slow.jsonl"
    script.write_text('{"text": "never", "delay_seconds": 3600}\n')
    async with daemon(env={"TREADLE_MODEL": f"scripted:{script}"}) as client:
        client.ask("session/prompt", pair("held", prompt="Hi"))
        await client.until(
            lambda: any(each["state"] == "running" for each in client.of("session/state"))
        )
        told = await doctor_beside("--json", "--offline", TREADLE_MODEL=f"scripted:{script}")
        held = {"agent": "assistant", "instance": "held", "pid": client.process.pid}
        assert told.json["threads"]["held"] == [held]
        assert told.wrong == []
        client.process.kill()
        await client.wait()
    told = await doctor_beside("--json", "--offline", TREADLE_MODEL=f"scripted:{script}")
    assert (told.json["threads"]["held"], told.json["threads"]["leftLocks"]) == ([], 1)
    assert [wrong["detail"] for wrong in told.wrong] == ["turn 1 was interrupted by a kill"]
    assert "1 lock of a killed process, which hinders nobody" in told.check("threads")["detail"]


def test_many_threads_are_looked_at_and_few_lines_are_told(script: Path) -> None:
    for number in range(2000):
        write_thread(f"t{number}", START, SAID, *([END] if number % 2 else []))
    told = doctor("--json")
    assert told.json["threads"]["count"] == 2000
    assert told.check("threads/more")["detail"] == "980 more of this kind"
    assert len(told.wrong) == 21


def test_a_large_thread_is_looked_at_from_its_end(script: Path) -> None:
    long = json.dumps({"role": "user", "content": "x" * 1000, "turn": 1})
    write_thread("large", START, *[long] * 3000, START.replace("1", "2"), SAID)
    told = doctor("--json")
    assert [wrong["detail"] for wrong in told.wrong] == ["turn 2 was interrupted by a kill"]


def test_escape_sequences_of_files_never_reach_the_terminal(script: Path) -> None:
    write_agent("evil", model='"\\x1b]0;owned\\x07"')
    path = stored("assistant", "x").parent / "\x1b[31m.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("")
    told, shown = doctor("--json"), doctor()
    assert told.code == shown.code == 1
    assert "\x1b" not in shown.out + told.out
    assert "\\x1b[31m" in shown.out


@posix_only
def test_a_terminal_gets_a_spinner_and_a_warning_of_its_encoding(script: Path) -> None:
    script.write_text('{"text": "ok", "delay_seconds": 1}\n')
    code, screen = on_a_terminal("doctor", PYTHONIOENCODING="latin-1")
    assert code == 1
    assert b"asking the models" in screen
    assert b"warning  terminal: its encoding is iso8859-1" in screen
    assert b"export PYTHONIOENCODING=utf-8" in screen


def on_a_terminal(*words: str, **env: str) -> tuple[int, bytes]:
    """Run a command whose streams are a terminal; return its code and what was shown."""
    import pty

    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "treadle", *words],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "400", **env},
    ) as process:
        os.close(follower)
        shown = b""
        with patience_with(process):
            # Linux says that nobody has the other end any more by an error.
            with contextlib.suppress(OSError):
                while data := os.read(leader, 65536):
                    shown += data
            os.close(leader)
            return process.wait(), shown
