"""The embedded model's process with a runtime that only notes what it was told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.models.embedded.server import CONTEXT_TOKENS, serve_command

BOUND_SECONDS = 20.0

# Takes any setting, prints where it should not, and tells its settings as its address.
RUNTIME = """
import json, os, sys
from types import SimpleNamespace
os.write(1, b"native noise on descriptor 1\\n")
print("noise on standard output", flush=True)

class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(),
                         cpuparams_batch=SimpleNamespace())

class Server:
    def __init__(self, settings):
        plain = lambda value: sorted(value) if isinstance(value, set) else vars(value)
        self.listening_address = json.dumps(settings, default=plain)
"""


def run(folder: Path, runtime: str) -> tuple[dict[str, Any], bytes, int]:
    """Start the process on a runtime of ours, read its line, end its input."""
    (folder / "xllamacpp.py").write_text(runtime)
    env = {**os.environ, "PYTHONPATH": str(folder), "TREADLE_EMBEDDED_KEY": "the key"}
    with subprocess.Popen(
        serve_command(folder / "model.gguf"),
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        line = child.stdout.readline()
        child.stdin.close()
        rest = child.stdout.read()
        return json.loads(line), rest, child.wait(BOUND_SECONDS)


def test_it_says_one_line_whatever_native_code_prints_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    said, rest, exit_code = run(tmp_path, RUNTIME)

    assert list(said) == ["base_url"]
    assert (rest, exit_code) == (b"", 0)


def test_the_runtime_is_set_up_for_one_quiet_user_of_this_machine(tmp_path: Path) -> None:
    said, _, _ = run(tmp_path, RUNTIME)

    settings = json.loads(said["base_url"].removesuffix("/v1"))
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    assert settings == {
        "model": {"path": str(tmp_path / "model.gguf")},
        "model_alias": ["embedded"],
        "n_ctx": CONTEXT_TOKENS,
        "n_parallel": 1,
        "cpuparams": {"n_threads": max(1, min(cores - 1, 8))},
        "cpuparams_batch": {"n_threads": min(cores, 8)},
        "hostnames": ["127.0.0.1"],
        "port": 0,
        "api_keys": ["the key"],
        "cors_origins": "http://127.0.0.1",
        "ui": False,
        "endpoint_slots": False,
        "endpoint_props": False,
        "endpoint_metrics": False,
        "cache_ram_mib": 256,
        "offline": True,
        "warmup": True,
        "verbosity": 1,
    }


@pytest.mark.parametrize(
    ("runtime", "error", "how"),
    [
        (
            "raise ImportError('libgomp.so.1: cannot open shared object file')",
            "libgomp.so.1: cannot open",
            "apt install libgomp1",
        ),
        ("raise OSError('libgomp.so.1 is not there')", "libgomp", "apt install libgomp1"),
        ("raise ImportError('no such module')", "no such", "pip install 'treadle[local]'"),
        (
            RUNTIME + "\n        raise RuntimeError('bad magic')",
            "model.gguf cannot be served (bad magic)",
            "treadle model pull",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_to_install(
    tmp_path: Path, runtime: str, error: str, how: str
) -> None:
    said, rest, exit_code = run(tmp_path, runtime)

    assert error in said["error"] and how in said["how"]
    assert (rest, exit_code) == (b"", 0)
