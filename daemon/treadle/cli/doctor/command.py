"""The command: who is asked to look, in which order, and how it is told to a person.

Refuses to know what can be wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from treadle.cli import exit_codes
from treadle.cli.doctor.answers import look_at_models, needs_embedded
from treadle.cli.doctor.definitions import look_at_definitions
from treadle.cli.doctor.embedded import look_at_embedded
from treadle.cli.doctor.machine import look_at_machine
from treadle.cli.doctor.places import look_at_folders
from treadle.cli.doctor.report import Check, Report
from treadle.cli.doctor.servers import look_at_servers
from treadle.cli.doctor.stored import look_at_threads
from treadle.cli.options import JsonOption
from treadle.cli.streams import to_json
from treadle.server.log.words import safe_line, secrets


def doctor(
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no model; only look at what is here.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0.1,
            metavar="SECONDS",
            help="How long a model may take (20, and 90 for the embedded one).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look whether everything works, and say what mends what does not; changes nothing.

    Exit codes: 0 nothing is wrong; 1 something is, be it only a warning.
    """
    # What the libraries and rooms below would say is told as checks.
    logging.getLogger().addHandler(logging.NullHandler())
    report = Report()
    # Before the spinner, which stands in for the streams that are looked at.
    look_at_machine(report)
    with _told() as tell:
        asyncio.run(_look(report, tell, offline=offline, timeout_seconds=timeout))
    if as_json:
        print(to_json(report.as_json()))
    else:
        _show(report)
    raise typer.Exit(exit_codes.FAILED if report.wrong else exit_codes.OK)


async def _look(
    report: Report,
    tell: Callable[[str], None],
    *,
    offline: bool,
    timeout_seconds: float | None,
) -> None:
    folders = look_at_folders(report)
    if folders is None:
        return
    agents, config = look_at_definitions(report, folders.config)
    if config is None:
        told = "which one answers cannot be told while config.toml is broken"
        report.checks.append(Check("models", "ok", told))
    else:
        tell("looking for MCP servers")
        await look_at_servers(report, agents, config, folders.config)
        tell("reading the embedded model's file")
        look_at_embedded(report, folders.cache, is_needed=needs_embedded(agents, config))
        tell("asking the models")
        await look_at_models(
            report,
            agents,
            config,
            folders.cache,
            offline=offline,
            timeout_seconds=timeout_seconds,
        )
    look_at_threads(report, folders.data, lambda count: tell(f"reading threads: {count}"))


def _show(report: Report) -> None:
    """Print what was looked at, and at the end what is wrong, a line each."""
    hidden = secrets()
    for line in _lines(report):
        print(safe_line(line, hidden))


def _lines(report: Report) -> Iterator[str]:
    versions = report.versions
    yield f"treadle {versions['treadle']}, Python {versions['python']}, {versions['platform']}"
    yield ", ".join(f"{name} {version}" for name, version in versions["libraries"].items())
    for check in report.checks:
        if check.status == "ok":
            yield f"ok       {check.name}: {check.detail}"
    for check in report.wrong:
        fix = f"  ->  {check.fix}" if check.fix else ""
        yield f"{check.status:<8} {check.name}: {check.detail}{fix}"
    yield _verdict(report)


def _verdict(report: Report) -> str:
    problems = sum(check.status == "problem" for check in report.wrong)
    warnings = len(report.wrong) - problems
    if not report.wrong:
        return "nothing is wrong"
    counts = ((problems, "problem"), (warnings, "warning"))
    return ", ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)


@contextlib.contextmanager
def _told() -> Iterator[Callable[[str], None]]:
    """Yield what tells how far it is: a spinner where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking around", spinner="line") as status:
        yield status.update
