"""The command `treadle`: which half of the command line a call belongs to.

`serve` is for programs and starts light; everything else is for people and may load more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words behind `treadle`; those of this process when left out.

    Returns:
        The exit code; `treadle --help` lists them.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except KeyboardInterrupt:
        # While the command is still being loaded nobody else listens for Ctrl-C.
        from treadle.cli.exit_codes import INTERRUPTED

        return INTERRUPTED


def _run(words: list[str]) -> int:
    if words[:1] == ["connect"]:
        from treadle.cli.connect import connect

        return connect(words[1:])
    if words[:1] == ["serve"]:
        from treadle.cli.serve import serve

        return serve(words[1:])
    from treadle.cli.app import run

    return run(words)
