"""An agent that acts: it finds, reads, mends and tests a project, as far as a person lets it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from support.approving import (
    PERMISSION,
    asked,
    careful_agent,
    client_that,
    decisions,
    here,
    results,
)
from support.daemon import daemon

PROGRAM = """\
def total(prices):
    result = 1
    for price in prices:
        result += price
    return result
"""
TESTS = """\
import unittest

from shop.total import total


class TotalTest(unittest.TestCase):
    def test_nothing_costs_nothing(self):
        self.assertEqual(total([]), 0)

    def test_prices_add_up(self):
        self.assertEqual(total([2, 3]), 5)
"""
RUN_TESTS = "python3 -B -m unittest -q"


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _repository(folder: Path) -> None:
    for path, text in {
        "shop/__init__.py": "",
        "shop/total.py": PROGRAM,
        "test_total.py": TESTS,
        "build/total.py": PROGRAM,
        ".gitignore": "build/\n",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    subprocess.run(["git", "init", "-q", folder], check=True)


async def test_an_agent_finds_reads_mends_and_tests_a_project_as_far_as_it_is_allowed(
    tmp_path: Path,
) -> None:
    mend = _call("edit", path="shop/total.py", edits=[{"old": "result = 1", "new": "result = 0"}])
    work = careful_agent(
        tmp_path,
        [_call("glob", pattern="**/*.py"), _call("grep", pattern=r"def total\(")],
        [_call("shell", command=RUN_TESTS)],
        [mend],
        [_call("read", path="shop/total.py")],
        [mend],
        [_call("shell", command=RUN_TESTS)],
        [_call("shell", command="git push")],
        max_turns=20,
    )
    _repository(work)

    def judge(params: dict[str, Any]) -> dict[str, str]:
        if params["detail"] == "shell: git push":
            return {"outcome": "deny"}
        return {"outcome": "allow_session" if params["capability"] == "shell" else "allow_once"}

    async with daemon(initialize=False) as client:
        client.answers[PERMISSION] = judge
        await client.initialize(capabilities=client_that(requestPermission=True))
        result = await client.request("session/prompt", here(prompt="Make the tests pass."))
        found, places, red, unread, text, mended, green, denied = await results(client)
        resumed = await client.request("session/resume", here())

    assert (result["stopReason"], result["text"], result["steps"]) == ("end_turn", "Done.", 8)
    assert (work / "shop/total.py").read_text() == PROGRAM.replace("= 1", "= 0")
    assert found == "shop/__init__.py\nshop/total.py\ntest_total.py"
    assert places == "shop/total.py\n1: def total(prices):"
    assert "FAILED (failures=2)\n[exit code 1 after" in red
    assert unread.startswith("shop/total.py exists and was not read in this session")
    assert text.splitlines()[1] == "2\t    result = 1"
    assert mended.startswith("Edited shop/total.py, +1 -1 lines:")
    assert "\nOK\n[exit code 0 after" in green
    assert denied.startswith("shell was not allowed")
    assert [(params["capability"], params["detail"]) for params in asked(client)] == [
        ("shell", f"shell: {RUN_TESTS}"),
        ("write", "edit shop/total.py: +1 -1 lines"),
        ("shell", "shell: git push"),
    ]
    assert "-    result = 1\n+    result = 0\n" in asked(client)[1]["preview"]
    assert [(tool, outcome) for tool, outcome, _ in decisions() if outcome != "asked"] == [
        ("shell", "allow_session"),
        ("edit", "allow_once"),
        ("shell", "deny"),
    ]
    assert resumed["allowed"] == [f"shell: {RUN_TESTS}"]
