"""A daemon that writes down which modules are loaded when `initialize` is answered."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from treadle.cli.main import main

if __name__ == "__main__":
    write = os.write

    def noting_write(descriptor: int, data: bytes) -> int:
        """Write, and note what is loaded when the first frame leaves."""
        target = Path(os.environ["LOADED_MODULES"])
        if bytes(data).startswith(b"Content-Length") and not target.exists():
            target.write_text("\n".join(sorted(sys.modules)))
        return write(descriptor, data)

    os.write = noting_write
    raise SystemExit(main(["serve"]))
