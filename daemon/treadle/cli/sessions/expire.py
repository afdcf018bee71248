"""`treadle sessions expire`: sessions that have expired by `[retention]`, and deleting them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.agents.catalogue import Catalogue
from treadle.cli.chat.wording import count as count_of
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, tell, to_json
from treadle.folders import find_folders
from treadle.thread import retention, whole
from treadle.thread.message import rfc3339


def expire(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be deleted.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the sessions that have expired by the table "retention" of config.toml.

    The oldest go first. A daemon does so by itself, once a day.
    """
    folders = find_folders()
    settings = Catalogue(folders.config).config().retention
    policy = retention.Policy(settings.days, settings.threads)
    look = _would_expire if dry_run else _expired
    found = [_plain(due, gone) for due, gone in look(folders.data, policy)]
    if as_json:
        print(to_json(found))
        return
    for each in found:
        name = f"{each['agent']}  {each['instance']}" if each["agent"] else each["path"]
        stays = "" if each["expires"] else f"  stays: {each.get('stays', 'it is in use by now')}"
        say(f"{each['updatedAt']}  {name}{stays}")
    tell(_summary(policy, sum(each["expires"] for each in found), dry_run=dry_run))


def _would_expire(data: Path, policy: retention.Policy) -> Iterator[tuple[retention.Due, bool]]:
    for due in retention.look(data, policy, time.time_ns()):
        yield due, not due.stays


def _expired(data: Path, policy: retention.Policy) -> Iterator[tuple[retention.Due, bool]]:
    whole.finish(data)
    for due, may_go in _would_expire(data, policy):
        yield due, may_go and retention.delete(due, time.time_ns())
    retention.tidy(data)


def _plain(due: retention.Due, expires: bool) -> dict[str, Any]:
    plain = {
        "agent": due.agent,
        "instance": due.instance,
        "path": str(due.path),
        "updatedAt": rfc3339(datetime.fromtimestamp(due.updated_ns / 10**9, UTC)),
        "expires": expires,
    }
    return {**plain, "stays": due.stays} if due.stays else plain


def _summary(policy: retention.Policy, count: int, *, dry_run: bool) -> str:
    if not policy:
        return "nothing expires: config.toml sets neither days nor threads in [retention]"
    sessions = count_of(count, "session")
    return f"{sessions} would be deleted" if dry_run else f"{sessions} deleted"
