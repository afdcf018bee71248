"""What `treadle doctor` says of stored threads: each problem with the command that mends it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from support.daemon import daemon
from support.doctor import END, SAID, START, doctor, doctor_beside, write_thread
from support.person import pair, stored, write_agent


def everything_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file with its time and its bytes."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


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
