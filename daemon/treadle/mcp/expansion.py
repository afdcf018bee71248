"""A declaration's variables, and the environment of the program that it names.

`${NAME}` becomes the value of the daemon's variable NAME, `${NAME:-else}` the words behind `:-`
where that is not set or empty. `$${` is a plain `${`, and any other `$` is itself: no value is
looked through again, and no shell reads it. Owns where that holds. Refuses to know when a server
starts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.sensitive import looks_secret
from treadle.models.spec import is_endpoint
from treadle.process.shell import inherited_environment

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ESCAPED_OR_REFERENCE = re.compile(rf"\$\$\{{|{_REFERENCE.pattern}")

# Nobody sits at a terminal: what is logged is plain, at once, and nothing asks for a password.
# Unlike commands of a model, a server knows by itself whether it pages or opens an editor.
_SET = {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "GIT_TERMINAL_PROMPT": "0"}


class CannotExpand(Exception):
    """A declaration cannot be filled in; the text names server, key and variable, never a value."""


def check_text(text: str) -> None:
    """Refuse a `${` that begins no variable.

    Raises:
        ValueError: there is one; the text, which ends a sentence, does not repeat it.
    """
    if "${" in _ESCAPED_OR_REFERENCE.sub(" ", text):
        raise ValueError("must hold variables as ${NAME} or ${NAME:-else}, and a plain ${ as $${")


def without_variables(text: str) -> str:
    """Return a text with a digit in the place of each variable, to see its shape."""
    return _ESCAPED_OR_REFERENCE.sub("1", text)


def expanded(declaration: ServerDeclaration, environ: Mapping[str, str]) -> ServerDeclaration:
    """Return a declaration as it is to be started now.

    Contract: looks up a home folder, and reads nothing else.

    Args:
        declaration: as it was declared.
        environ: the daemon's variables.

    Raises:
        CannotExpand: a variable is not set, or makes something that cannot be.
    """

    def text(key: str, value: str) -> str:
        return _filled(f"the MCP server {declaration.name}: {key}", value, environ)

    def pairs(key: str, given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, text(f"{key} {name}", value)) for name, value in given)

    def maybe(key: str, value: str | None) -> str | None:
        return None if value is None else text(key, value)

    filled = replace(
        declaration,
        command=_at_home(declaration, "command", maybe("command", declaration.command)),
        args=tuple(text("args", word) for word in declaration.args),
        env=pairs("env", declaration.env),
        cwd=_at_home(declaration, "cwd", maybe("cwd", declaration.cwd)),
        url=maybe("url", declaration.url),
        headers=tuple((name, said.strip()) for name, said in pairs("headers", declaration.headers)),
    )
    _check(filled)
    return filled


def secret_variables(declaration: ServerDeclaration) -> tuple[str, ...]:
    """Return the variables whose values a declaration hands on as something secret.

    Those are the token's, those of headers, and wherever else one is called so, or is handed on
    in a variable that is.
    """

    def named() -> Iterator[str]:
        if declaration.token_env:
            yield declaration.token_env
        for _, value in declaration.headers:
            yield from _names(value)
        for own, value in declaration.env:
            yield from (name for name in _names(value) if looks_secret(own) or looks_secret(name))
        for value in (*declaration.args, declaration.url or ""):
            yield from filter(looks_secret, _names(value))

    return tuple(dict.fromkeys(named()))


def server_environment(declaration: ServerDeclaration, path: str) -> dict[str, str]:
    """Return the whole environment of a server's program.

    It is the little that any program of ours inherits, without a key of anybody's, and what is
    declared for it. Whoever wants more, such as HTTPS_PROXY, declares it: `${HTTPS_PROXY}`.

    Args:
        declaration: expanded.
        path: where it finds programs.
    """
    found = {**inherited_environment(), **_SET, "PATH": path}
    for name, value in declaration.env:
        # There the case of a name means nothing, and the first of two would count.
        found[name.upper() if sys.platform == "win32" else name] = value
    return found


def _filled(where: str, value: str, environ: Mapping[str, str]) -> str:
    def put(found: re.Match[str]) -> str:
        name, otherwise = found.groups()
        if name is None:
            return "${"
        if said := environ.get(name, ""):
            return said
        if otherwise is None:
            raise CannotExpand(
                f"{where} refers to the variable {name}, which is not set; set it for the daemon, "
                f"or write ${{{name}:-what to use instead}}"
            )
        return str(otherwise)

    return _ESCAPED_OR_REFERENCE.sub(put, value)


def _at_home(declaration: ServerDeclaration, key: str, value: str | None) -> str | None:
    """Return a path with `~` as the home folder that it means."""
    if value is None or not value.startswith("~"):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError as error:
        raise _cannot(declaration, key, "names a home folder that nobody has") from error


def _check(filled: ServerDeclaration) -> None:
    """See that what variables made can be: what has none was checked where it was written."""
    if filled.command is not None:
        if not filled.command:
            raise _cannot(filled, "command", "is empty with its variables")
        # One that begins nowhere would be another program in each folder.
        program = Path(filled.command)
        if len(program.parts) > 1 and not program.is_absolute():
            raise _cannot(filled, "command", "is no absolute path with its variables")
    if filled.cwd is not None and not Path(filled.cwd).is_absolute():
        raise _cannot(filled, "cwd", "is no absolute path with its variables")
    if filled.url is not None and not is_endpoint(filled.url):
        raise _cannot(filled, "url", "is no http:// or https:// address with its variables")
    for name, said in filled.headers:
        if not said.isascii() or not said.isprintable():
            raise _cannot(filled, f"headers {name}", "is not printable ASCII with its variables")


def _cannot(declaration: ServerDeclaration, key: str, what: str) -> CannotExpand:
    return CannotExpand(f"the MCP server {declaration.name}: {key} {what}; look at what they hold")


def _names(value: str) -> Iterator[str]:
    for found in _ESCAPED_OR_REFERENCE.finditer(value):
        if found[1] is not None:
            yield found[1]
