"""Ctrl-C while a command is still being loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Far more than any command takes on a busy machine.
PATIENCE_SECONDS = 60

# A module that is loaded only on the way, and whose loading takes until Ctrl-C.
INTERRUPTED = "raise KeyboardInterrupt"


@pytest.mark.parametrize(
    ("word", "module"), [("chat", "typer"), ("prompt", "typer"), ("serve", "argparse")]
)
def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_word(
    tmp_path: Path, word: str, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(INTERRUPTED)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from treadle.cli.main import main"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; raise SystemExit(main([{word!r}]))"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
