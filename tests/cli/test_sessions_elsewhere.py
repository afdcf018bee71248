"""`treadle sessions` where lines of a session lie elsewhere, and where what comes in is secret."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.doctor import doctor
from support.person import stored, write_config
from support.waiting import PATIENCE_SECONDS
from treadle.folders import CACHE_VARIABLE
from treadle.thread import unsaved
from treadle.thread.files import make_folder

HI = b'{"role":"user","content":"hi"}\n'
MORE = b'{"role":"assistant","content":"more"}\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what cannot be written away from the person's own folders."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path() -> Path:
    """A session with one message in its file, and one elsewhere."""
    path = stored("assistant", "x")
    make_folder(path.parent)
    path.write_bytes(HI)
    path.chmod(0o600)
    unsaved.keep(path, len(HI), MORE, {})
    return path


def run(*words: str, code: int = 0) -> tuple[bytes, str]:
    """Run one command to its end; return what it printed and what it told."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "sessions", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr.decode()


def test_verify_and_doctor_tell_of_lines_that_lie_elsewhere(path: Path) -> None:
    [place] = unsaved.find(path)
    printed, told = run("verify", code=1)
    assert printed.decode() == f"{path}: unsaved: its last 1 line could not be written: {place}\n"
    assert told == "1 problem found, 1 of them mended by: treadle sessions repair\n"
    check = doctor("--json").check("threads/unsaved")
    assert check == {
        "name": "threads/unsaved",
        "status": "warning",
        "detail": f"the last 1 line of {path} lie in {place} for now",
        "fix": "treadle sessions repair",
    }
    assert run("repair") == (f"{path}: mended\n".encode(), "1 thread mended\n")
    assert path.read_bytes() == HI + MORE
    assert run("verify") == (b"", "nothing is wrong\n")


def test_what_is_shown_of_a_session_names_what_lies_elsewhere(path: Path) -> None:
    [place] = unsaved.find(path)
    printed, _ = run("show", "-i", "x")
    last = printed.decode().rstrip().splitlines()[-1]
    assert last == f"-- not here: the last 1 line, in {place} until it is opened"


@pytest.mark.parametrize("command", ["export", "fork"])
def test_what_lies_elsewhere_is_exported_and_forked_too(path: Path, command: str) -> None:
    if command == "export":
        assert run("export", "-i", "x") == (HI + MORE, "")
    else:
        assert run("fork", "y", "-i", "x") == (b"", "y begins with 2 messages\n")
    assert unsaved.find(path) == []


def test_an_export_that_lacks_the_last_lines_says_so_loudly(path: Path) -> None:
    [place] = unsaved.find(path)
    # Nothing can be brought back to a session beside which something strange lies.
    path.with_suffix(".lock").mkdir()
    printed, told = run("export", "-i", "x", code=1)
    assert printed == HI
    first, second = told.splitlines()
    assert first.startswith(f"treadle: {path.with_suffix('.lock')} is a folder")
    assert second == f"treadle: MISSING here: the last 1 line of the session; see {place}"
    assert place.exists()


def test_secrets_are_left_out_of_what_is_imported_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdefghijklmnopqrstuvwxyz")
    secret = b'{"role":"user","content":"use sk-0123456789abcdefghijklmnopqrstuvwxyz"}\n'
    log = tmp_path / "log.jsonl"
    log.write_bytes(HI + secret + MORE)
    told = run("import", str(log), "-i", "y")[1]
    assert told == "3 messages imported, 1 of them without the secrets that they held\n"
    assert b"0123456789" not in stored("assistant", "y").read_bytes()
    exported = run("export", "-i", "y")[0].splitlines(keepends=True)
    assert (exported[0], exported[2]) == (HI, MORE)
    assert json.loads(exported[1])["content"].startswith("use [secret ")


def test_what_the_configuration_names_a_secret_is_left_out_of_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config('[secrets]\nnames = ["MY_TOKEN"]\n')
    monkeypatch.setenv("MY_TOKEN", "a-token-of-mine")
    log = tmp_path / "log.jsonl"
    log.write_bytes(HI + b'{"role":"user","content":"use a-token-of-mine"}\n')
    told = run("import", str(log), "-i", "y")[1]
    assert told == "2 messages imported, 1 of them without the secrets that they held\n"
    assert b"a-token" not in stored("assistant", "y").read_bytes()


def test_doctor_tells_what_lies_in_the_place_of_our_files_and_what_kills_left(path: Path) -> None:
    unsaved.bring_back(path)
    folder, left = path.with_suffix(".deleting"), path.with_name("y.new")
    folder.mkdir()
    left.write_bytes(HI)
    wrong = doctor("--json").wrong
    assert [each for each in wrong if each["name"].startswith("threads")] == [
        {
            "name": "threads/left",
            "status": "warning",
            "detail": f"{left} is left of a copy or a deletion that was never finished",
            "fix": "treadle sessions repair",
        },
        {
            "name": "threads/in-the-way",
            "status": "problem",
            "detail": f"{folder} is a folder, where what is left of a deleted thread should lie; "
            "move it away",
            "fix": f"mv {folder} {folder}.away",
        },
    ]


def test_what_is_no_file_of_messages_is_refused_by_its_name(tmp_path: Path) -> None:
    for place, why in ((tmp_path, "is no file"), (tmp_path / "none", "No such file")):
        told = run("import", str(place), "-i", "y", code=1)[1]
        assert str(place) in told
        assert why in told
        assert "thread" not in told
    assert not stored("assistant", "y").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are a thing of Unix")
def test_an_export_that_has_no_room_names_its_file_and_leaves_nothing(
    path: Path, tmp_path: Path
) -> None:
    import resource

    unsaved.bring_back(path)
    path.write_bytes(HI * 1000)
    out = tmp_path / "out.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "sessions", "export", "-i", "x", "-o", str(out)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert (done.returncode, out.exists()) == (1, False)
    assert done.stderr == f"treadle: cannot write {out}: File too large\n"


def test_a_list_names_what_it_leaves_out(path: Path) -> None:
    folder = stored("assistant", "folder")
    folder.mkdir()
    printed, told = run("list")
    assert b"  assistant  x  1 message\n" in printed
    assert told.startswith(f"treadle: left out: {folder}: {folder} is a folder")
