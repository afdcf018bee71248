"""A declaration's variables, and the environment of the program that it names.

`${NAME}` becomes the value of the daemon's variable NAME, `${NAME:-else}` the words behind `:-`
where that is not set or empty; `$${` is a plain `${`, and any other `$` is itself. Owns where that
holds. Refuses to know when a server starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.sensitive import looks_secret
from treadle.process.shell import shell_environment

_REFERENCE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class CannotExpand(Exception):
    """A variable is not set; the text names it and where it stands, never a value."""


def expanded(declaration: ServerDeclaration, environ: Mapping[str, str]) -> ServerDeclaration:
    """Return a declaration as it is to be started now.

    Raises:
        CannotExpand: it refers to a variable that is not set.
    """

    def text(key: str, value: str) -> str:
        def put(found: re.Match[str]) -> str:
            escaped, name, otherwise = found.groups()
            if escaped:
                return found.group()[1:]
            if said := environ.get(name, ""):
                return said
            if otherwise is None:
                raise CannotExpand(
                    f"{key} refers to the variable {name}, which is not set; set it for the "
                    f"daemon, or write ${{{name}:-what to use instead}}"
                )
            return otherwise

        return _REFERENCE.sub(put, value)

    def pairs(key: str, given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, text(f"{key} {name}", value)) for name, value in given)

    def maybe(key: str, value: str | None) -> str | None:
        return None if value is None else text(key, value)

    return replace(
        declaration,
        command=maybe("command", declaration.command),
        args=tuple(text("args", one) for one in declaration.args),
        env=pairs("env", declaration.env),
        cwd=maybe("cwd", declaration.cwd),
        url=maybe("url", declaration.url),
        headers=pairs("headers", declaration.headers),
    )


def secret_variables(declaration: ServerDeclaration) -> tuple[str, ...]:
    """Return the variables whose values a declaration hands on as something secret.

    Those are the token's, those of headers, and those in `env` that are called so.
    """

    def named() -> Iterator[str]:
        if declaration.token_env:
            yield declaration.token_env
        for _, value in declaration.headers:
            yield from _names(value)
        for own, value in declaration.env:
            yield from (name for name in _names(value) if looks_secret(own) or looks_secret(name))

    return tuple(dict.fromkeys(named()))


def server_environment(declaration: ServerDeclaration, path: str) -> dict[str, str]:
    """Return the whole environment of a server's program.

    It is that of any command of ours, without a key of anybody's, and what is declared for it.

    Args:
        declaration: expanded.
        path: where it finds programs.
    """
    return {**shell_environment(), "PATH": path, **dict(declaration.env)}


def _names(value: str) -> Iterator[str]:
    for found in _REFERENCE.finditer(value):
        if not found.group(1):
            yield found.group(2)
