"""`treadle sessions verify` and `repair`: what is wrong with what is stored, and mending it."""

from __future__ import annotations

from typing import Any

import typer

from treadle.cli import exit_codes
from treadle.cli.chat.wording import count as count_of
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, tell, to_json
from treadle.folders import find_folders
from treadle.thread import verify as verifying
from treadle.thread.loaded import LoadReport


def verify(as_json: JsonOption = False) -> None:
    """Look through every stored session; say what is wrong, and where. Changes nothing.

    Exit code 1 where anything is wrong.
    """
    found = list(verifying.verify(find_folders().data))
    if as_json:
        print(to_json([_plain(finding) for finding in found]))
    else:
        for finding in found:
            say(_line(finding))
        tell(_summary(found))
    if found:
        raise typer.Exit(exit_codes.FAILED)


def repair() -> None:
    """Mend what `verify` finds and can be mended; what cannot be read is set aside, never lost.

    Exit code 1 where something could not be mended.
    """
    failed = count = 0
    for repaired in verifying.repair(find_folders().data):
        count += 1
        failed += bool(repaired.problem)
        say(f"{repaired.path}: {repaired.problem or _mended(repaired.report)}")
    tell(_outcome(count - failed, failed) if count else "there is nothing to mend")
    if failed:
        raise typer.Exit(exit_codes.FAILED)


def _line(finding: verifying.Finding) -> str:
    where = f"{finding.path}:{finding.line}" if finding.line else str(finding.path)
    return f"{where}: {finding.kind}: {finding.detail}"


def _plain(finding: verifying.Finding) -> dict[str, Any]:
    plain: dict[str, Any] = {"path": str(finding.path), "kind": finding.kind}
    if finding.line:
        plain |= {"line": finding.line, "offset": finding.offset}
    return {**plain, "detail": finding.detail, "mendable": finding.is_mendable}


def _summary(found: list[verifying.Finding]) -> str:
    if not found:
        return "nothing is wrong"
    mendable = sum(finding.is_mendable for finding in found)
    told = f"{count_of(len(found), 'problem')} found"
    return f"{told}, {mendable} of them mended by: treadle sessions repair" if mendable else told


def _outcome(mended: int, failed: int) -> str:
    """Say how many threads were mended: several problems are often those of one."""
    told = f"{count_of(mended, 'thread')} mended"
    return f"{told}, {failed} not" if failed else told


def _mended(report: LoadReport) -> str:
    """Say what was mended in a thread."""
    told = []
    if report.quarantined_lines:
        told.append(f"{count_of(report.quarantined_lines, 'bad line')} set aside")
    if report.torn_bytes:
        told.append(f"half a line of {count_of(report.torn_bytes, 'byte')} set aside")
    if report.interrupted_turn is not None:
        told.append(f"turn {report.interrupted_turn} ended as interrupted")
    return ", ".join(told) or "mended"
