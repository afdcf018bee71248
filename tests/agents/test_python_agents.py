"""Agents as Python files: what they may say, and that none of them can hurt the daemon."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import posix_only
from treadle import Definition, tool
from treadle.agents import python_file
from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.options import SessionOptions, advertised_tools, narrow
from treadle.errors import ConfigurationError, InvalidAgent, InvalidParams, WouldWiden

# Long ago, so that a file counts as settled.
_OLD_NS = 10**18

COUNTING = """
from treadle import Definition, tool

@tool(capability="read")
def inhabitants(city: str) -> int:
    \"\"\"Tell how many people live in a city.\"\"\"
    return 7

class Layer:
    def __init__(self, app, *, limit):
        self._app = app
    async def __call__(self, env):
        await self._app(env)

def agent():
    return Definition(
        "You count.", description="Counts", tools=["read"], own_tools=[inhabitants],
    ).use(Layer, limit=3)
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    (folder / "agents").mkdir(parents=True)
    for each in (folder, folder / "agents"):
        each.chmod(0o700)
    return folder


def _write(config: Path, text: str, name: str = "counter.py") -> Path:
    path = config / "agents" / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    path.chmod(0o600)
    return path


def _problem(config: Path, text: str) -> str:
    _write(config, text)
    with pytest.raises(InvalidAgent) as caught:
        Catalogue(config).find("counter")
    return caught.value.message


def test_a_python_file_is_an_agent_with_tools_and_layers_of_its_own(config: Path) -> None:
    path = _write(config, COUNTING)
    agent = Catalogue(config).find("counter")
    assert (agent.name, agent.source, agent.instructions) == ("counter", str(path), "You count.")
    assert (agent.description, agent.permissions, agent.tools) == ("Counts", "read_only", ("read",))
    assert [each.spec.name for each in advertised_tools(agent)] == ["read", "inhabitants"]
    ((_, guarded),) = agent.own_layers
    assert (guarded["own"].__name__, guarded["made_with"]) == ("Layer", {"limit": 3})


def test_a_change_of_the_file_is_another_agent_and_a_break_keeps_the_last(config: Path) -> None:
    catalogue = Catalogue(config)
    path = _write(config, COUNTING)
    first = catalogue.find("counter")
    assert catalogue.find("counter") is first
    _write(config, COUNTING.replace("You count.", "You sum."))
    second = catalogue.find("counter")
    assert second.instructions == "You sum."
    _write(config, COUNTING.replace("def agent", "def agnt"))
    assert catalogue.find("counter") is second
    message = (
        "counter.py: it has no function agent(); write `def agent():` that returns a "
        "treadle.Definition"
    )
    assert catalogue.list()[1] == [AgentProblem(str(path), message)]


def test_a_file_is_run_once_for_what_it_says(config: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    _write(config, f"open({str(ran)!r}, 'a').write('.')\n" + COUNTING)
    catalogue = Catalogue(config)
    for _ in range(3):
        catalogue.find("counter")
        catalogue.list()
    assert ran.read_text() == "."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n1 / 0\n", "counter.py, line 2: ZeroDivisionError: division by zero"),
        ("def agent(:\n", "counter.py, line 1: this is no Python: invalid syntax"),
        ("import sys\nsys.exit(3)\n", "counter.py, line 2: it wants to end the process"),
        ("raise KeyboardInterrupt\n", "counter.py, line 1: KeyboardInterrupt"),
        ("def agent():\n    return 5\n", "counter.py: agent() returns int; write `def agent():`"),
        ("async def agent():\n    pass\n", "counter.py: agent() must not be async"),
        ("agent = 5\n", "counter.py: it has no function agent()"),
        ("import nowhere_at_all\n", "counter.py, line 1: ModuleNotFoundError: No module named"),
        (
            "from treadle import Definition as D\ndef agent():\n    return D(permissions='x')\n",
            "counter.py, line 3: permissions must be one of read_only, ask, auto, not 'x'.",
        ),
        (
            "from treadle import Definition\ndef agent():\n    return Definition(tool=['read'])\n",
            "counter.py, line 3: there is no key 'tool'. Did you mean tools?",
        ),
        (
            "class Odd(Exception):\n    def __str__(self):\n        raise self\nraise Odd\n",
            "counter.py, line 4: Odd",
        ),
    ],
)
def test_what_goes_wrong_in_a_file_is_told_with_its_line(
    config: Path, text: str, said: str
) -> None:
    assert _problem(config, text).startswith(said)


def test_secrets_in_what_a_file_raises_are_not_told(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTER_KEY", "sk-very-secret-value")
    (config / "config.toml").write_text('[secrets]\nnames = ["COUNTER_KEY"]\n')
    _write(config, "import os\nraise ValueError(os.environ['COUNTER_KEY'])\n")
    catalogue = Catalogue(config)
    catalogue.config()
    (problem,) = catalogue.list()[1]
    assert problem.message == "counter.py, line 2: ValueError: [secret COUNTER_KEY]"


def test_a_broken_file_is_run_again_when_it_was_touched(config: Path, tmp_path: Path) -> None:
    path = _write(config, f"open({str(tmp_path / 'needed')!r})\n" + COUNTING)
    os.utime(path, ns=(_OLD_NS, _OLD_NS))
    catalogue = Catalogue(config)
    for _ in range(2):
        (problem,) = catalogue.list()[1]
        assert problem.message.startswith("counter.py, line 1: FileNotFoundError")
        (tmp_path / "needed").touch()
    os.utime(path, ns=(_OLD_NS, _OLD_NS + 1))
    assert catalogue.list()[1] == []
    assert catalogue.find("counter").instructions == "You count."


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What a file waits for that seems to hang; it goes on at the end of the test."""
    monkeypatch.setattr(python_file, "LOAD_SECONDS", 0.05)
    gate = threading.Event()
    monkeypatch.setattr(sys, "treadle_test_gate", gate, raising=False)
    yield gate
    gate.set()
    for thread in python_file._left_behind:
        thread.join(30)
    assert not any(thread.is_alive() for thread in python_file._left_behind)


def test_a_file_that_hangs_is_left_behind_and_the_last_good_one_stays(
    config: Path, gate: threading.Event
) -> None:
    catalogue = Catalogue(config)
    _write(config, COUNTING)
    with pytest.MonkeyPatch.context() as patient:
        patient.setattr(python_file, "LOAD_SECONDS", 30.0)
        first = catalogue.find("counter")
    _write(config, "import sys\nsys.treadle_test_gate.wait()\n")
    assert catalogue.find("counter") is first
    (problem,) = catalogue.list()[1]
    assert problem.message.startswith("counter.py: it was not loaded within 0.05 s; it goes on in")
    assert len([each for each in python_file._left_behind if each.is_alive()]) == 1


def test_no_more_than_a_few_threads_are_left_behind(config: Path, gate: threading.Event) -> None:
    for number in range(python_file.MOST_LEFT_BEHIND):
        _write(config, f"import sys\nsys.treadle_test_gate.wait()\n# {number}\n", f"{number}.py")
    catalogue = Catalogue(config)
    catalogue.list()
    _write(config, COUNTING)
    with pytest.raises(InvalidAgent, match="8 agent files have not ended loading"):
        catalogue.find("counter")


@posix_only
@pytest.mark.parametrize("place", ["", "agents", "agents/counter.py"])
def test_a_file_that_others_could_have_written_is_not_run(config: Path, place: str) -> None:
    path = _write(config, COUNTING)
    catalogue = Catalogue(config)
    good = catalogue.find("counter")
    loose = config / place
    loose.chmod(loose.stat().st_mode | 0o020)
    message = f"counter.py is not run: other users can write to {loose}; run: chmod go-w {loose}"
    assert catalogue.list()[1] == [AgentProblem(str(path), message)]
    assert catalogue.find("counter") is good
    with pytest.raises(InvalidAgent, match="is not run"):
        Catalogue(config).find("counter")
    loose.chmod(loose.stat().st_mode & ~0o022)
    assert Catalogue(config).list()[1] == []


@posix_only
def test_a_link_to_a_file_in_a_folder_of_everybodys_is_not_run(
    config: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "counter.py").write_text(COUNTING)
    (shared / "counter.py").chmod(0o600)
    shared.chmod(0o777)
    (config / "agents" / "counter.py").symlink_to(shared / "counter.py")
    with pytest.raises(InvalidAgent, match=f"other users can write to {shared}"):
        Catalogue(config).find("counter")


def test_a_markdown_file_goes_before_a_python_file_of_its_name(config: Path) -> None:
    path = _write(config, COUNTING)
    _write(config, "I am Markdown.", "counter.md")
    catalogue = Catalogue(config)
    assert catalogue.find("counter").instructions == "I am Markdown."
    message = "counter.py is not used, for there is counter.md too; remove one"
    assert catalogue.list()[1] == [AgentProblem(str(path), message)]


def test_python_files_that_are_no_agents_are_left_alone(config: Path) -> None:
    for name in ("__init__.py", "_helpers.py", ".hidden.py", "counter.pyc"):
        _write(config, "1 / 0", name)
    assert [agent.name for agent in Catalogue(config).list()[0]] == ["assistant"]
    assert Catalogue(config).list()[1] == []


def test_a_session_may_leave_out_an_agents_own_tools_and_never_add_one(config: Path) -> None:
    _write(config, COUNTING)
    agent = Catalogue(config).find("counter")

    def told(*names: str) -> list[str]:
        narrowed = narrow(agent, SessionOptions(tools=names))
        return [each.spec.name for each in advertised_tools(narrowed)]

    assert told("inhabitants") == ["inhabitants"]
    assert told("read") == ["read"]
    with pytest.raises(WouldWiden, match="it has: read, inhabitants"):
        told("grep")
    with pytest.raises(InvalidParams, match="Did you mean inhabitants"):
        told("inhabitant")


def test_an_own_tool_that_the_mode_never_allows_is_not_told_of() -> None:
    @tool(capability="write")
    def paint(color: str) -> str:
        """Paint it."""
        return color

    agent = Definition(own_tools=[paint], tools=[]).named("painter", "painter.py")
    assert advertised_tools(agent) == ()
    asking = Definition(own_tools=[paint], tools=[], permissions="ask").named("p", "p.py")
    assert advertised_tools(asking) == (paint,)


def test_a_definition_says_what_it_does_not_take(tmp_path: Path) -> None:
    @tool(capability="read")
    def read(path: str) -> str:
        """Read it."""
        return path

    for wrong, said in (
        (lambda: Definition(own_tools=[read]), "own_tools holds read, which is a built-in tool's"),
        (lambda: Definition(own_tools=[len]), "own_tools holds len, which is no function under"),
        (lambda: Definition(pipeline="x"), "pipeline must be what default_stack().build() returns"),  # type: ignore[arg-type]  # the point
        (lambda: Definition(own_tools=read), "own_tools must be a list of functions under @tool"),
        (lambda: Definition(7), "instructions must be text, not 7"),
        (lambda: Definition(cwd=tmp_path, sandbox="virtual"), "cwd means nothing in a virtual"),
        (lambda: Definition().use(5), "a layer is a class or a function, not 5"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            wrong()  # type: ignore[no-untyped-call]  # what is wrong is what is tested
        assert caught.value.message.startswith(said)
    agent = Definition(cwd=tmp_path, tools=("read", "grep")).named("a", "a.py")
    assert (agent.cwd, agent.sandbox, agent.tools) == (tmp_path, "local", ("read", "grep"))
