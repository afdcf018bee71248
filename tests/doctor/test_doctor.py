"""`treadle doctor` where all is well, and what can be wrong with folders, files and terminals."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.doctor import doctor, write_thread
from support.person import write_agent, write_config
from support.process import patience_with, posix_only
from treadle.folders import CACHE_VARIABLE, CONFIG_VARIABLE, DATA_VARIABLE, LOG_VARIABLE
from treadle.models.embedded.fetch import part_path
from treadle.models.embedded.files import EMBEDDED_FILE, cached_path
from treadle.thread.files import make_folder
from treadle.thread.paths import THREADS_FOLDER
from treadle.version import __version__


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


def test_a_person_reads_the_same_and_at_the_end_what_is_wrong(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = doctor()
    assert (well.code, well.err) == (0, "")
    assert well.out.startswith(f"treadle {__version__}, Python ")
    assert well.out.endswith("\nok       threads: 0 stored (0 bytes)\nnothing is wrong\n")
    monkeypatch.setenv("SHORT", "1234567")
    config = write_config("[secrets]\nnames = ['SHORT']\n")
    agent = write_agent("inbox", permisions="auto")
    ill = doctor()
    assert ill.code == 1
    *_, problem, warning, verdict = ill.out.splitlines()
    assert problem.startswith(
        "problem  agent/inbox: inbox.md, line 2: there is no key 'permisions'"
    )
    assert problem.endswith(f"  ->  ${{EDITOR:-vi}} {agent}")
    assert warning.startswith("warning  config.toml: [secrets] SHORT has a value of fewer than 8")
    assert warning.endswith(f"  ->  ${{EDITOR:-vi}} {config}")
    assert verdict == "1 problem, 1 warning"


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
