"""A daemon in which everything that can print does: run by `test_clean_output.py`."""

# ruff: noqa: T201 - printing is what this module is for

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

from treadle.cli.main import main
from treadle.models import scripted
from treadle.protocol.agents import AgentListResult
from treadle.server.handlers import HANDLERS


async def noise(params: Any, peer: Any) -> AgentListResult:
    """Stand in for `agent/list` and print in every way there is."""
    print("noise from print")
    sys.stdout.write("noise from sys.stdout")
    sys.stdout.flush()
    os.write(1, b"noise from descriptor 1\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"noise from C")
    libc.fflush(None)
    subprocess.run(["sh", "-c", "echo noise from a child; cat"], check=True)  # noqa: ASYNC221 - a rude handler
    warnings.warn("noise from a warning", stacklevel=1)
    logging.getLogger("noise").error("noise from a log")
    faulthandler.dump_traceback()
    threading.Thread(target=print, args=["noise from a thread"]).start()
    assert sys.stdin.read() == ""
    return AgentListResult(agents=[], problems=[])


say = scripted.Scripted.__call__


async def noisy_model(self: scripted.Scripted, env: Any) -> None:
    """Stand in for the scripted model, and print around it."""
    print("noise from a model")
    os.write(1, b"noise from a model's descriptor 1\n")
    await say(self, env)
    print("noise without a line end", end="")


HANDLERS["agent/list"] = noise
scripted.Scripted.__call__ = noisy_model  # type: ignore[method-assign]  # that is what it is for
atexit.register(lambda: print("noise at exit"))
atexit.register(lambda: os.write(1, b"noise from descriptor 1 at exit\n"))
print("noise before the start, still in the buffer", end="")

if __name__ == "__main__":
    raise SystemExit(main(["serve"]))
