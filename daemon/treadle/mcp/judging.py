"""Whether a call's arguments fit the JSON Schema that a server gives for its tool.

Owns what is judged here, and for how long. In doubt arguments pass: the server judges them anyhow,
and what it says reaches the model as well. So a schema that is broken, refers to what is elsewhere
or takes too long to follow takes no tool away, and a call that would go well is never refused.

No pattern is ever run: those of JSON Schema are ECMAScript's, which Python's only resemble, and
one that backtracks without end would hold the whole daemon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any, TypeAlias

import msgspec

from treadle.tools.limits import cut_characters

# An ordinary schema is followed within a millisecond or two; the daemon does nothing else then.
BUDGET_SECONDS = 0.05

# Ordinary schemas nest a dozen deep, with two keywords or so for each step into the arguments. One
# that refers to itself without end is left long before the end of the stack: what the libraries
# are made of does not survive that.
MOST_NESTED = 100

# Of so many errors the one is told that says most; there may be one for each item of a long list.
ERRORS = 32

# An error quotes what it complains of; a model recognises it by its beginning.
MESSAGE_CHARACTERS = 300

# Every item is compared with every other one.
MOST_UNIQUE_ITEMS = 100


class Judge:
    """Judges arguments by one schema.

    Args:
        schema: the JSON Schema of an object; without `$schema` it is of the draft 2020-12.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._validator: Any = None

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are.

        Raises:
            msgspec.ValidationError: they do not fit, and it is certain.
        """
        if complaint := self._complaint(arguments):
            raise msgspec.ValidationError(complaint)
        return arguments

    def _complaint(self, arguments: dict[str, Any]) -> str:
        """Say what does not fit; nothing where all does, or where nobody can tell."""
        try:
            if self._validator is None:
                self._validator = _validator(self._schema)
            token = _judgment.set(_Judgment())
            try:
                return _told(self._validator.iter_errors(arguments))
            finally:
                _judgment.reset(token)
        except Exception:
            # Whatever a stranger's schema makes a library raise.
            return ""


class _Unknown(Exception):
    """Nobody can tell here whether a part fits."""


class _Judgment:
    """One judgment on its way.

    Attributes:
        doubt: within how many keywords, such as `not`, that say the more the less their parts do:
            what is left out there would turn the answer around.
    """

    def __init__(self) -> None:
        self.doubt = 0
        self._nested = 0
        self._end = time.monotonic() + BUDGET_SECONDS

    @contextmanager
    def keyword(self) -> Iterator[None]:
        """Follow a keyword, inside those that led to it.

        Raises:
            TimeoutError: it has taken too long, or leads too far.
        """
        if time.monotonic() > self._end or self._nested >= MOST_NESTED:
            raise TimeoutError
        self._nested += 1
        try:
            yield
        finally:
            self._nested -= 1

    def leave(self) -> None:
        """Leave something to the server, where that can only let more through.

        Raises:
            _Unknown: it could do more than that.
        """
        if self.doubt:
            raise _Unknown


_judgment: ContextVar[_Judgment] = ContextVar("_judgment")

_Check: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[Any] | None]
"""How `jsonschema` checks a keyword: validator, its value, what is checked, the schema around."""

# What is left to the server; see the module's first words for the patterns.
_LEFT = frozenset({"pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties"})

# Keywords that count, or turn around, what their parts say.
_DOUBTFUL = frozenset({"not", "oneOf", "if", "contains", "disallow"})

# Values that a keyword cannot have, and that the library would follow all the same: those of other
# drafts, and mistakes that people make.
_LISTS = frozenset({"required", "enum", "anyOf", "oneOf", "allOf"})
_NUMBERS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)


def _validator(schema: dict[str, Any]) -> Any:
    """Return a validator that follows our rules, and never looks anything up elsewhere.

    Raises:
        ValueError: a part of the schema is of another draft, which would follow its own rules.
    """
    # Half a tenth of a second to load, and only for sessions that call an MCP server's tools.
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]  # as above
    from referencing import Registry

    draft = validator_for(schema, default=Draft202012Validator)
    bare = {key: value for key, value in schema.items() if key != "$schema"}
    if _names_a_draft(bare):
        raise ValueError("a part is of another draft")
    return _careful(draft)(bare, registry=Registry())


@cache
def _careful(draft: Any) -> Any:
    """Return a draft's validator with our rules around each of its keywords."""
    from jsonschema.validators import extend

    return extend(draft, {name: _check(name, check) for name, check in draft.VALIDATORS.items()})


def _check(name: str, check: _Check) -> _Check:
    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        judgment = _judgment.get()
        with judgment.keyword():
            _require_sound(name, value)
            if _is_left(name, instance, schema):
                judgment.leave()
            elif name in _DOUBTFUL:
                yield from _doubting(judgment, check, validator, value, instance, schema)
            else:
                yield from check(validator, value, instance, schema) or ()

    return checked


def _doubting(judgment: _Judgment, check: _Check, *given: Any) -> list[Any]:
    """Return what a doubtful keyword finds: nothing, where a part of it is left to the server."""
    judgment.doubt += 1
    try:
        return list(check(*given) or ())
    except _Unknown:
        if judgment.doubt > 1:
            raise
        return []
    finally:
        judgment.doubt -= 1


def _is_left(name: str, instance: Any, schema: Any) -> bool:
    if name == "additionalProperties":
        return "patternProperties" in schema
    if name == "uniqueItems":
        return isinstance(instance, list) and len(instance) > MOST_UNIQUE_ITEMS
    return name in _LEFT


def _require_sound(name: str, value: Any) -> None:
    """Go on with a keyword.

    Raises:
        ValueError: the schema is broken.
    """
    is_list = isinstance(value, list)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_broken = (
        (name in _LISTS and not (is_list and (value or name == "required")))
        or (name in _NUMBERS and not is_number)
        or (name == "type" and not value)
    )
    if is_broken:
        raise ValueError(f"{name} cannot be {value!r}")


def _names_a_draft(part: Any) -> bool:
    """Whether any part of a schema says which draft it is of."""
    if isinstance(part, dict):
        return isinstance(part.get("$schema"), str) or any(map(_names_a_draft, part.values()))
    return isinstance(part, list) and any(map(_names_a_draft, part))


def _told(errors: Iterator[Any]) -> str:
    """Say what does not fit, as msgspec does: what, and where."""
    from jsonschema.exceptions import best_match  # type: ignore[import-untyped]  # it has no types

    error = best_match(islice(errors, ERRORS))
    if error is None:
        return ""
    message = cut_characters(str(error.message), MESSAGE_CHARACTERS)
    where = "".join(_step(step) for step in error.absolute_path)
    return f"{message} - at `${where}`" if where.startswith(".") else message


def _step(step: object) -> str:
    return f"[{step}]" if isinstance(step, int) else f".{step}"
