"""`initialize` is answered before anything of weight is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from support.daemon import daemon

LOADED = (sys.executable, str(Path(__file__).parent / "drivers" / "loaded.py"))

# Libraries that cost more than the whole answer, what only later requests need, and our own rooms
# that lead to them.
FORBIDDEN = frozenset(
    {
        "aiohttp",
        "anyio",
        "attrs",
        "cattrs",
        "email",
        "html",
        "http",
        "httpx",
        "httpx2",
        "hypothesis",
        "lsprotocol",
        "mcp",
        "multiprocessing",
        "numpy",
        "openai",
        "pydantic",
        "pydantic_core",
        "pygls",
        "rich",
        "sqlite3",
        "tomllib",
        "treadle.agents",
        "treadle.cli.app",
        "treadle.models",
        "treadle.permissions",
        "treadle.process.child",
        "treadle.process.group",
        "treadle.runtime",
        "treadle.sandbox",
        "treadle.server.bridge",
        "treadle.server.feed",
        "treadle.server.handlers",
        "treadle.tools",
        "treadle.turn",
        "typer",
        "unittest",
        "urllib.request",
        "watchfiles",
        "xllamacpp",
        "yaml",
    }
)


def _is_forbidden(module: str) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:count]) in FORBIDDEN for count in range(1, len(parts) + 1))


async def test_nothing_of_weight_is_loaded_when_initialize_is_answered(tmp_path: Path) -> None:
    noted = tmp_path / "modules"
    async with daemon(program=LOADED, env={"LOADED_MODULES": str(noted)}) as client:
        loaded = noted.read_text().splitlines()
        assert "treadle.server.connection" in loaded  # so the list was made in the right place
        assert [module for module in loaded if _is_forbidden(module)] == []
        await client.still_answers()
        assert await client.end() == 0


async def test_listing_sessions_loads_no_model_library(
    serving: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    program = serving(
        "import atexit, sys",
        "loaded = lambda: print(*{'openai', 'pydantic'} & {*sys.modules}, file=sys.stderr)",
        "atexit.register(loaded)",
    )
    log = tmp_path / "stderr"
    with log.open("wb") as stderr:
        async with daemon(program=program, stderr=stderr) as client:
            await client.request("session/resume", {"agent": "assistant", "instance": "a"})
            await client.request("session/list")
            assert await client.end() == 0
    assert log.read_text() == "\n"
