"""A signal that the main thread does not get is acted on all the same, and at once."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from support.daemon import daemon
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals of this kind")

# A thread that sends its own process a signal once a file is there. The system hands it to that
# very thread, so that it interrupts no call that the main thread sleeps in.
ASIDE = """
import os, signal, threading, time
def send():
    while not os.path.exists({path!r}):
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.{name})
threading.Thread(target=send, daemon=True).start()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
async def test_a_daemon_that_sleeps_ends_at_once(name: str, tmp_path: Path) -> None:
    driver, now = tmp_path / "driver.py", tmp_path / "now"
    driver.write_text(
        ASIDE.format(path=str(now), name=name)
        + "from treadle.cli.main import main\nraise SystemExit(main(['serve']))\n"
    )
    async with daemon(program=(sys.executable, str(driver))) as client:
        await client.still_answers()
        now.touch()
        assert await client.wait() == 0


async def test_a_prompt_that_waits_for_its_model_is_cancelled_at_once(tmp_path: Path) -> None:
    driver, now, script = tmp_path / "driver.py", tmp_path / "now", tmp_path / "script.jsonl"
    # Longer than the bound of the wait below: only the cancel can end it in time.
    script.write_text('{"text": "never", "delay_seconds": 3600}\n')
    driver.write_text(
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        + ASIDE.format(path=str(now), name="SIGINT")
        + "from treadle.cli.main import main\nraise SystemExit(main(['prompt', '--json', 'Hi']))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(driver),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TREADLE_MODEL": f"scripted:{script}"},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert b'"running"' in await process.stdout.readline()
            now.touch()
            rest = await process.stdout.read()
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (code, b'"stopReason": "cancelled"' in rest) == (130, True)
