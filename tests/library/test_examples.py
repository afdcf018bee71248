"""The examples, run as their docstrings say."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.model_server import ModelServer, memory
from support.peers import installed_neovim, newer_neovim, require_program
from support.person import stored
from treadle.thread.replay import load

EXAMPLES = Path(__file__).parents[2] / "examples"
# Far more than any of them takes on a busy machine.
PATIENCE_SECONDS = 60.0


def commands(name: str) -> list[list[str]]:
    """The commands that an example's docstring shows."""
    docstring = ast.get_docstring(ast.parse((EXAMPLES / name).read_text("utf-8"))) or ""
    lines = [line.strip() for line in docstring.splitlines() if line.startswith("    ")]
    assert all(line.startswith(f"python examples/{name}") for line in lines)
    return [[sys.executable, *shlex.split(line)[1:]] for line in lines]


async def run(command: list[str], folder: Path, **variables: str) -> str:
    """Run a command in a folder that holds the examples; return what it prints."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ | variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, stderr.decode()) == (0, "")
    return stdout.decode().replace("\r\n", "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the test's own, with the examples in it."""
    shutil.copytree(EXAMPLES, tmp_path / "here" / "examples")
    return tmp_path / "here"


def test_every_example_has_a_test() -> None:
    names = {path.name for path in EXAMPLES.glob("*.*")}

    assert names == {
        "remember.py",
        "session.py",
        "own_layer.py",
        "compaction.py",
        "jsonrpc_client.py",
        "shell.sh",
        "neovim.lua",
    }


async def test_remember_run_twice_remembers(folder: Path) -> None:
    first, second = commands("remember.py")
    async with ModelServer(memory) as server:
        model = {"TREADLE_MODEL": "m", "OPENAI_BASE_URL": server.base_url}
        await run(first, folder, **model)
        answer = await run(second, folder, **model)

        assert answer == "Your name is Mac.\n"
        assert [message["role"] for message in server.requests[1]["messages"]] == [
            "system",
            *("user", "assistant"),
            "user",
        ]
    assert (folder / "chat.jsonl").exists()


@pytest.mark.parametrize(
    ("model", "words"), [(None, ["chat.jsonl", "Hi."]), ("", ["chat.jsonl", "Hi."]), ("m", ["Hi."])]
)
async def test_remember_says_how_to_call_it_when_something_is_left_out(
    folder: Path, model: str | None, words: list[str]
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TREADLE_MODEL"}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "examples/remember.py", *words],
        cwd=folder,
        env=env if model is None else env | {"TREADLE_MODEL": model},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "usage: TREADLE_MODEL=<model> python examples/remember.py <thread.jsonl> <prompt>\n"
    )


async def test_session_run_twice_remembers_in_the_thread_that_a_daemon_would_use(
    folder: Path,
) -> None:
    first, second = commands("session.py")
    async with ModelServer(memory) as server:
        model = {"TREADLE_MODEL": "m", "OPENAI_BASE_URL": server.base_url}
        await run(first, folder, **model)

        assert await run(second, folder, **model) == "Your name is Mac.\n(turn 2: end_turn)\n"
    said = load(stored("assistant", "user-42")).messages
    assert [message.role for message in said] == ["user", "assistant"] * 2


async def test_own_layer_runs_its_tool_and_counts(folder: Path) -> None:
    (command,) = commands("own_layer.py")

    assert await run(command, folder) == (
        "calls inhabitants {'city': 'Oslo'}\n"
        "reads 724290\n"
        "724,290 people live in Oslo.\n"
        "spent 32 tokens\n"
    )


async def test_compaction_gives_up_asides_first_and_keeps_them_in_the_thread(folder: Path) -> None:
    (command,) = commands("compaction.py")

    assert await run(command, folder) == (
        "> My name is Mac.\n"
        "Hello Mac.\n"
        "> Aside: It was long, \n"
        "I see.\n"
        "> Aside: It was long, \n"
        "Indeed.\n"
        "compacted from 340 to 28 tokens, by asides\n"
        "  gave up 2: Aside: It was long, \n"
        "  gave up 3: I see.\n"
        "  gave up 4: Aside: It was long, \n"
        "  gave up 5: Indeed.\n"
        "> What is my name?\n"
        "Your name is Mac.\n"
        "18 lines in the thread\n"
    )


async def test_the_jsonrpc_client_prompts_twice_and_the_session_remembers(folder: Path) -> None:
    (command,) = commands("jsonrpc_client.py")
    async with ModelServer(memory) as server:
        model = {"TREADLE_MODEL": "m", "OPENAI_BASE_URL": server.base_url}

        assert await run(command, folder, **model) == (
            "> My name is Mac.\n"
            "Your name is Mac.\n"
            "  turn 1: end_turn\n"
            "> What is my name?\n"
            "Your name is Mac.\n"
            "  turn 2: end_turn\n"
        )


async def test_the_jsonrpc_client_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse((EXAMPLES / "jsonrpc_client.py").read_text("utf-8"))
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }

    assert imported <= sys.stdlib_module_names


# `treadle` is the one of the environment that the tests run in.
ON_PATH = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell is no part of Windows")
@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
async def test_the_shell_script_prompts_twice_and_the_session_remembers(
    shell: str, folder: Path
) -> None:
    command = [require_program(shell), "examples/shell.sh"]
    async with ModelServer(memory) as server:
        model = {"TREADLE_MODEL": "m", "OPENAI_BASE_URL": server.base_url}
        printed = [await run(command, folder, **model, **ON_PATH) for _ in range(2)]

    for turn, lines in enumerate((each.splitlines() for each in printed), 1):
        frames = [json.loads(line) for line in lines]
        assert [frame.get("id") for frame in frames if "id" in frame] == [1, 2]
        assert frames[-1]["result"]["turn"] == turn
        assert frames[-1]["result"]["text"] == "Your name is Mac."


@pytest.mark.parametrize("neovim", [installed_neovim, newer_neovim])
async def test_the_neovim_commands_show_an_answer_in_its_own_buffer(
    neovim: Callable[[], str], folder: Path
) -> None:
    nvim = neovim()
    lines = 'table.concat(vim.api.nvim_buf_get_lines({}, 0, -1, false), "\\n")'
    shown, current = lines.format("Answer"), lines.format(0)
    steps = [
        "luafile examples/neovim.lua",
        "Treadle My name is Mac.",
        "lua Answer = vim.api.nvim_get_current_buf()",
        # Whoever asked goes on with another file; the answer is none of its text.
        "new",
        f"lua vim.wait(20000, function() return {shown}:find('Mac') end)",
        f"lua io.stdout:write({shown}, '|', {current})",
        "TreadleStop",
        "qa!",
    ]
    async with ModelServer(memory) as server:
        model = {"TREADLE_MODEL": "m", "OPENAI_BASE_URL": server.base_url}
        command = [nvim, "--headless", "-u", "NONE", *(f"+{step}" for step in steps)]
        printed = await run(command, folder, **model, **ON_PATH)

    assert printed == "Your name is Mac.|"
