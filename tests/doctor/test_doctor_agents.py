"""`treadle doctor` on agents in Python and in a project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.doctor import doctor
from support.process import posix_only
from treadle.folders import CONFIG_VARIABLE


@pytest.fixture
def agents(script: Path) -> Path:
    folder = Path(os.environ[CONFIG_VARIABLE], "agents")
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o700)
    return folder


@posix_only
def test_a_python_agent_that_cannot_be_used_is_a_problem_with_the_line(agents: Path) -> None:
    for name, text in (("loud", "print('LOUD')\n1 / 0\n"), ("open", "")):
        (agents / f"{name}.py").write_text(text)
    (agents / "loud.py").chmod(0o600)
    (agents / "open.py").chmod(0o666)
    told = doctor("--json", "--offline")
    assert told.check("agent/loud") == {
        "name": "agent/loud",
        "status": "problem",
        "detail": "loud.py, line 2: ZeroDivisionError: division by zero",
        "fix": f"${{EDITOR:-vi}} {agents / 'loud.py'}",
    }
    assert "other users can write to" in told.check("agent/open")["detail"]
    assert (told.code, told.err) == (1, "LOUD\n")


def test_a_project_that_nobody_trusts_is_a_warning_with_the_command(
    agents: Path, tmp_path: Path
) -> None:
    project = Path(os.path.realpath(tmp_path)) / "project"
    (project / ".treadle" / "agents").mkdir(parents=True)
    (project / ".treadle" / "agents" / "inbox.md").write_text("Sort.")
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "doctor", "--json", "--offline"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=project,
        timeout=60,
    )
    (check,) = [each for each in json.loads(done.stdout)["checks"] if each["name"] == "workspace"]
    assert (check["status"], check["fix"]) == ("warning", f"treadle trust {project}")
    assert check["detail"] == f"the agents of {project} are not trusted; look at them"
