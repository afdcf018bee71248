"""A daemon that is killed after a message's bytes are written and before its line is."""

from __future__ import annotations

import os
import signal

from treadle.cli.main import main
from treadle.thread.journal import Journal

if __name__ == "__main__":
    append = Journal.append

    def dying_append(self: Journal, line: bytes) -> None:
        """Die in the place of writing a line that refers to bytes."""
        if b'"sha256"' in line:
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, line)

    Journal.append = dying_append  # type: ignore[method-assign]  # that is the point of it
    raise SystemExit(main(["serve"]))
