"""What one value of a person's file may be: checks that agent files and config.toml share.

Each takes a value as YAML or TOML gave it and returns it as we keep it.
Contract: raises ValueError whose text ends the sentence `<key> …` and says what is expected;
a value that may be a secret written in the wrong place is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from treadle.models.spec import is_endpoint
from treadle.thread.message import clean
from treadle.tools.nearest import did_you_mean
from treadle.tools.web.addresses import address_of, host_name

Check: TypeAlias = Callable[[Any], Any]

# Beyond this a number of model calls or turns is a slip of the finger, and no bound any more.
MAX_COUNT = 10_000
# A day: longer than any wait for a model or an idle session that a person would plan for.
MAX_SECONDS = 86_400.0
# More than this is beyond the window of any model and no file of a person's: some other file.
FILE_LIMIT_BYTES = 256 * 1024
# What is repeated of a wrong value: enough to recognise it.
_SHOWN_CHARACTERS = 60

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")


def text(value: Any) -> str:
    """Take any text that is Unicode; an escape such as `\\ud800` can make other."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {shown(value)}; put it in quotes")
    if clean(value) != value:
        raise ValueError("must not hold half of a surrogate pair")
    return value


def line(value: Any) -> str:
    """Take text that stands on one line and says something."""
    said = text(value).strip()
    if not said or not said.isprintable():
        raise ValueError(f"must be text on one line, not {shown(value)}")
    return said


def url(value: Any) -> str:
    """Take the address of an endpoint, without a password in it."""
    said = text(value).strip()
    if "@" in said:
        raise ValueError("must hold no user name or password; name a variable in api_key_env")
    if not is_endpoint(line(said)):
        raise ValueError(f"must be an http:// or https:// address, not {shown(value)}")
    return said


def variable(value: Any) -> str:
    """Take the name of an environment variable; anything else may be a key, so it is not shown."""
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise ValueError(
            "must be the name of an environment variable (letters, digits and _), "
            "never the key itself"
        )
    return value


def variables(value: Any) -> tuple[str, ...]:
    """Take a list of distinct names of environment variables."""
    if not isinstance(value, list):
        raise ValueError('must be a list of names of environment variables, such as ["MY_TOKEN"]')
    try:
        taken = tuple(variable(each) for each in value)
    except ValueError:
        raise ValueError(
            "must name environment variables (letters, digits and _), never hold a secret itself"
        ) from None
    if twice := [name for number, name in enumerate(taken) if name in taken[:number]]:
        raise ValueError(f"names {twice[0]} twice")
    return taken


def header(value: Any) -> str:
    """Take the name of an HTTP header; anything else may be a key, so it is not shown."""
    if not isinstance(value, str) or not _HEADER.fullmatch(value):
        raise ValueError(
            "must be the name of an HTTP header, such as X-Api-Key, never the key itself"
        )
    return value


def hosts(value: Any) -> tuple[str, ...]:
    """Take a list of distinct names of hosts, each in the form in which it is compared."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list such as [docs.python.org], not {shown(value)}")
    taken: list[str] = []
    for each in value:
        if (host := _host(each)) in taken:
            raise ValueError(f"names {host} twice")
        taken.append(host)
    return tuple(taken)


def folder(value: Any) -> Path:
    """Take an absolute path or one below the home folder (`~`)."""
    try:
        path = Path(line(value)).expanduser()
    except RuntimeError:
        raise ValueError(f"names a home folder that nobody has: {shown(value)}") from None
    if not path.is_absolute():
        raise ValueError(f"must be an absolute path or begin with ~/, not {shown(value)}")
    return path


def whole(least: int, most: int) -> Check:
    """Make a check that takes a whole number within bounds."""

    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}, not {shown(value)}")
        return value

    return check


def count(value: Any) -> int:
    """Take a whole number from 1 on."""
    return int(whole(1, MAX_COUNT)(value))


def seconds(value: Any) -> float:
    """Take a positive number of seconds."""
    if type(value) not in (int, float) or not 0 < value <= MAX_SECONDS:
        raise ValueError(
            f"must be a number of seconds, above 0 and up to {MAX_SECONDS:.0f}, not {shown(value)}"
        )
    return float(value)


def seconds_or_none(value: Any) -> float:
    """Take a number of seconds, or 0 for a time that never comes."""
    return 0.0 if value == 0 and type(value) in (int, float) else seconds(value)


def choice(*choices: str) -> Check:
    """Make a check that takes one of a few words."""

    def check(value: Any) -> str:
        if value not in choices:
            guess = did_you_mean(value, choices) if isinstance(value, str) else ""
            raise ValueError(f"must be one of {', '.join(choices)}, not {shown(value)}.{guess}")
        return str(value)

    return check


def names(known: Iterable[str]) -> Check:
    """Make a check that takes a list of distinct names out of the known ones."""
    all_known = tuple(known)

    def check(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError(f"must be a list such as [{all_known[0]}], not {shown(value)}")
        for number, name in enumerate(value):
            if name not in all_known:
                guess = did_you_mean(str(name), all_known)
                raise ValueError(
                    f"names {shown(name)}, which is not there.{guess} "
                    f"There are: {', '.join(all_known)}"
                )
            if name in value[:number]:
                raise ValueError(f"names {name} twice")
        return tuple(value)

    return check


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Say what is wrong with a key that this version does not take."""
    known = tuple(known)
    there_are = f"The keys are: {', '.join(known)}"
    return f"there is no key {shown(key)}.{did_you_mean(key, known)} {there_are}"


def shown(value: Any) -> str:
    """Return a wrong value as it is repeated to the person, on one line and not long."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "a table"
    said = repr(value) if isinstance(value, str) else str(value)
    return said if len(said) <= _SHOWN_CHARACTERS else said[:_SHOWN_CHARACTERS] + "…"


def _host(value: Any) -> str:
    """Take the name of one host; its subdomains are meant as well."""
    name = text(value).strip()
    example = "write a host alone, such as docs.python.org: its subdomains are included"
    try:
        host = host_name(name)
    except ValueError:
        raise ValueError(
            f"holds {shown(value)}, which is no name of a host; {example}, and there is no "
            "scheme, port, path or *"
        ) from None
    if address_of(host) is not None:
        raise ValueError(f"holds {shown(value)}, which is an address; {example}")
    if "." not in host:
        raise ValueError(f"holds {shown(value)}, which is no host of the internet; {example}")
    return host
