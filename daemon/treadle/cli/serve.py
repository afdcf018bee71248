"""`treadle serve`: the daemon's entry, which loads nothing that `initialize` does not need."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.folders import Folders


def serve(arguments: Sequence[str]) -> int:
    """Serve one client on standard input and output; return the exit code."""
    options = _parser().parse_args(arguments)

    # Before anything else can print: from here on nothing but frames reaches standard output.
    from treadle.server.wire.stdio import take_stdio

    in_fd, out_fd = (-1, -1) if options.socket else take_stdio()

    import sys

    from treadle.cli import exit_codes
    from treadle.errors import ConfigurationError
    from treadle.folders import find_folders
    from treadle.server.log import start_log
    from treadle.server.wire.stdio import STDERR

    try:
        folders = find_folders(options.data_dir, options.config_dir)
    except ConfigurationError as error:
        print(f"treadle: {error}", file=sys.stderr)
        return exit_codes.FAILED
    start_log(folders, options.log_level, stderr_fd=STDERR)
    if options.socket:
        return _serve_socket(folders)

    from treadle.server.serve import serve_stdio

    _tell_a_person(in_fd)
    return serve_stdio(folders, in_fd, out_fd)


def _serve_socket(folders: Folders) -> int:
    """Serve any number of clients; what keeps that from beginning is told in a line."""
    import sys

    from treadle.cli import exit_codes
    from treadle.errors import TreadleError
    from treadle.server.shared import serve_socket

    try:
        return serve_socket(folders)
    except (TreadleError, OSError) as error:
        print(f"treadle: {error}", file=sys.stderr)
        return exit_codes.FAILED


def _tell_a_person(in_fd: int) -> None:
    """Say on standard error why nothing happens, if it was somebody who typed the command."""
    import contextlib
    import os
    import sys

    if not os.isatty(in_fd):
        return

    # Where that takes nothing, nobody can be told, and serving goes on.
    with contextlib.suppress(OSError):
        print(
            "treadle serve: waiting for an editor or a script to send JSON-RPC on standard input; "
            "to talk yourself, run `treadle chat`. Ctrl-D ends this.",
            file=sys.stderr,
            flush=True,
        )


def _parser() -> argparse.ArgumentParser:
    from treadle.server.log import LEVELS

    parser = argparse.ArgumentParser(
        prog="treadle serve",
        description="Speak JSON-RPC 2.0 with LSP framing on standard input and output.",
    )
    parser.add_argument(
        "--stdio", action="store_true", help="what is done anyway; editors say it out of habit"
    )
    parser.add_argument(
        "--socket",
        action="store_true",
        help="serve any number of clients of yours instead, which `treadle connect` finds",
    )
    parser.add_argument("--data-dir", help="where threads lie (else $TREADLE_DATA_DIR)")
    parser.add_argument(
        "--config-dir", help="where agents/ and config.toml lie (else $TREADLE_CONFIG_DIR)"
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        help="how much the log file tells (else $TREADLE_LOG_LEVEL, else info)",
    )
    return parser
