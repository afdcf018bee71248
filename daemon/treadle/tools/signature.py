"""A function's signature as a model and a decoder need it: names, JSON Schema, descriptions.

Owns the reading of annotations and Google-style docstrings; refuses to know what runs the
function.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from treadle.errors import ConfigurationError

# The parameter that a model is not told of: it is given by whoever runs the tool.
CONTEXT = "context"

# Sections that end the description; what follows is for programmers, arguments aside.
_SECTION = re.compile(r"^(Args|Arguments|Returns|Yields|Raises|Examples?|Note|Contract):")
# How msgspec refers from one part of a schema to another, until that is put in its place.
_REFERENCE = "#/$defs/{name}"
# An argument in `Args:`: its name, its type where one is given, what it is for.
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)(?: \([^)]*\))?: *(.*)$")


@dataclass(frozen=True, slots=True)
class Signature:
    """What `read_signature` found; `decode` makes of an object what the function is called with.

    Contract: `decode` raises msgspec.ValidationError where the object does not fit.
    """

    name: str
    description: str
    schema: dict[str, Any]
    arguments: tuple[str, ...]
    takes_context: bool
    decode: Callable[[dict[str, Any]], Any]


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read what a model must know of a function.

    Raises:
        ConfigurationError: a parameter without annotation or of a kind that has no name, or a
            type that JSON cannot hold.
    """
    name = getattr(function, "__name__", "")
    text = inspect.getdoc(function) or ""
    parameters = inspect.signature(function).parameters
    try:
        struct = _struct(function, name, parameters)
        schema = _schema(struct)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} cannot be a tool: {error}") from error
    for argument, about in _described(text).items():
        if argument in schema["properties"]:
            schema["properties"][argument].setdefault("description", about)
    return Signature(
        name=name,
        description=_summary(text),
        schema=schema,
        arguments=struct.__struct_fields__,
        takes_context=CONTEXT in parameters,
        decode=lambda arguments: msgspec.convert(arguments, struct),
    )


def _struct(
    function: Callable[..., Any], name: str, parameters: typing.Mapping[str, inspect.Parameter]
) -> type[msgspec.Struct]:
    """Build the struct whose fields are the parameters; a default makes a field optional."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in parameters.values():
        if parameter.name == CONTEXT:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{parameter} cannot be given by name")
        if parameter.name not in hints:
            raise TypeError(f"{parameter.name} has no annotation")
        default = () if parameter.default is parameter.empty else (parameter.default,)
        fields.append((parameter.name, hints[parameter.name], *default))
    return msgspec.defstruct(name, fields, kw_only=True, frozen=True, forbid_unknown_fields=True)


def _schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the struct's schema as every provider takes it: an object, without references.

    Raises:
        ValueError: a type holds itself, which no schema without references can say.
    """
    (root,), parts = msgspec.json.schema_components([struct], ref_template=_REFERENCE)
    schema: dict[str, Any] = _inlined(root, parts, ())
    del schema["title"]
    if not schema["required"]:
        del schema["required"]
    return schema


def _inlined(part: Any, parts: dict[str, Any], within: tuple[str, ...]) -> Any:
    """Put in the place of every reference what it refers to.

    Args:
        part: a piece of a schema.
        parts: what can be referred to, by name.
        within: the names that this piece is a part of.
    """
    if isinstance(part, list):
        return [_inlined(each, parts, within) for each in part]
    if not isinstance(part, dict):
        return part
    own = {key: _inlined(value, parts, within) for key, value in part.items() if key != "$ref"}
    if not isinstance(part.get("$ref"), str):
        return own
    name = part["$ref"].removeprefix(_REFERENCE.format(name=""))
    if name in within:
        raise ValueError(f"its type {name} holds itself")
    return _inlined(parts[name], parts, (*within, name)) | own


def _summary(text: str) -> str:
    """Return the docstring's text up to its first section."""
    lines: list[str] = []
    for line in text.splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def _described(text: str) -> dict[str, str]:
    """Return what the docstring's `Args:` says of each argument, on one line each."""
    described: dict[str, str] = {}
    section = name = ""
    indent = 0
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        if section not in ("Args", "Arguments") or heading or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        if depth == indent and (found := _ARGUMENT.match(line.strip())):
            name, described[found[1]] = found[1], found[2]
        elif name:
            described[name] = f"{described[name]} {line.strip()}".strip()
    return described
