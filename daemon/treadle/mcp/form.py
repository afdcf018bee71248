"""What a server wants of a person, read from its JSON Schema: fields, and what fits each.

Owns which schemas can be put to a person, in which words, and how words become values.
Refuses to know how a person is asked. MCP allows a flat object of strings, numbers, booleans and
choices ("Elicitation", 2025-11-25); anything else is no form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from treadle.mcp.sensitive import looks_secret
from treadle.sanitise import clean_line
from treadle.secrets import known
from treadle.thread.message import clean
from treadle.tools.asking import Asked

# A person answers so many questions one after the other; more is a form for a web page.
MAX_FIELDS = 20
# A list that is longer is searched, not read.
MAX_CHOICES = 60
# Of a title, a description or a choice: what a line or three hold.
LINE_CHARACTERS = 300
# Far more than anybody types; a client that sends a file has misunderstood.
ANSWER_CHARACTERS = 5000
# A number of more digits is no number that anybody means, and some take long to be read.
NUMBER_CHARACTERS = 40

# What a person types where a question has no answer of its own with these words.
SKIP = "skip"
DECLINE = "decline"

_YES = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


class NoForm(Exception):
    """A schema that is not put to anybody; the text says why."""


class DoesNotFit(Exception):
    """An answer that is no value of its field; the text says what would be."""


class Declined(Exception):
    """The person does not want to answer."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that is asked for.

    Args:
        name: the member that it becomes.
        words: how it is asked for; the server's own.
        hint: what fits it; ours.
        choices: values by the words that mean them; empty where any value may fit.
        value_of: makes a value of what was typed. Contract: raises DoesNotFit where it cannot.
        required: it cannot be left out.
        default: what it is where it is left out; None where it then is absent.
    """

    name: str
    words: str
    hint: str
    choices: dict[str, Any]
    value_of: Callable[[str], Any]
    required: bool
    default: Any

    def question(self, question_id: str, before: str = "") -> Asked:
        """Return the question for it; `before` stands above."""
        return Asked(question_id, f"{before}> {self.words}\n({self._hints()})", tuple(self.choices))

    def read(self, typed: str) -> Any:
        """Return the value that a person's words mean; None where it is left out.

        Raises:
            Declined: they say so.
            DoesNotFit: they mean none.
        """
        word = clean(typed).strip()
        if len(word) > ANSWER_CHARACTERS:
            raise DoesNotFit(f"that is longer than {ANSWER_CHARACTERS:,} characters")
        if word in self.choices:
            return self.value_of(word)
        if word.casefold() == DECLINE:
            raise Declined
        can_skip = self.default is not None or not self.required
        if can_skip and (not word or word.casefold() == SKIP):
            return self.default
        if not word:
            raise DoesNotFit("this cannot be left out")
        return self.value_of(word)

    def _hints(self) -> str:
        hints = [self.hint]
        if self.default is not None:
            hints.append(f"“{SKIP}” for {self._default_shown()}")
        elif not self.required:
            hints.append(f"“{SKIP}” leaves it out")
        return "; ".join(hints)

    def _default_shown(self) -> str:
        """Show the default as its choices are, where it has some."""
        values = self.default if isinstance(self.default, list) else [self.default]
        labels = {value: label for label, value in self.choices.items()}
        return ", ".join(labels.get(value, line(str(value))) for value in values)


def fields_of(schema: dict[str, Any]) -> tuple[Field, ...]:
    """Read a schema; one without properties has no fields.

    Raises:
        NoForm: nobody is to be asked for this.
    """
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise NoForm("its schema is no object's")
    if len(properties) > MAX_FIELDS:
        raise NoForm(f"it asks for {len(properties)} things at once, more than {MAX_FIELDS}")
    return tuple(_field(name, told, name in required) for name, told in properties.items())


def line(text: str) -> str:
    """Return a server's words as one line of bounded length, safe to show, without secrets."""
    # Redacted before it is cut: half a secret is not recognised any more.
    told = known().redact(clean_line(text))
    return told if len(told) <= LINE_CHARACTERS else told[: LINE_CHARACTERS - 1] + "…"


def _field(name: str, told: object, required: bool) -> Field:
    if not isinstance(told, dict):
        raise NoForm(f"the schema of {line(name)!r} is none")
    title, description = _text(told, "title"), _text(told, "description")
    hint, choices, value_of = _kind(name, told)
    if not choices and (told.get("format") == "password" or looks_secret(name, title, description)):
        raise NoForm(f"{line(name)!r} looks like a secret, which no server may ask a person for")
    words = line(title or name) + (f": {line(description)}" if description else "")
    default = told.get("default")
    if default == "" or not _fits(value_of, choices, default):
        default = None
    return Field(name, words, hint, choices, value_of, required, default)


def _kind(name: str, told: dict[str, Any]) -> tuple[str, dict[str, Any], Callable[[str], Any]]:
    """Return what fits, the choices and what reads an answer."""
    match told.get("type"):
        case "boolean":
            return "yes or no", {"yes": True, "no": False}, _truth
        case "integer" | "number" as kind:
            return _number_hint(told), {}, lambda word: _number(word, kind, told)
        case "array":
            items = told.get("items")
            choices = _choices(name, items if isinstance(items, dict) else {})
            if not choices:
                raise NoForm(f"{line(name)!r} is a list of anything, for which nobody can be asked")
            return "one or several, with commas between", choices, _several(choices, told)
        case "string":
            choices = _choices(name, told)
            if choices:
                return "one of these", choices, lambda word: _chosen(word, choices)
            return _text_hint(told), {}, lambda word: _checked(word, told)
    raise NoForm(f"{line(name)!r} is neither text, a number, yes or no, nor a choice")


def _choices(name: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return values by what is shown for them: `enum` (with `enumNames`), `oneOf` or `anyOf`."""
    titled = told.get("oneOf") or told.get("anyOf")
    if isinstance(titled, list):
        pairs = [
            (str(one.get("title") or one.get("const")), one.get("const"))
            for one in titled
            if isinstance(one, dict) and isinstance(one.get("const"), str)
        ]
    else:
        values = [each for each in _list(told, "enum") if isinstance(each, str)]
        names = [str(each) for each in _list(told, "enumNames")]
        pairs = list(zip(names if len(names) == len(values) else values, values, strict=True))
    if len(pairs) > MAX_CHOICES:
        raise NoForm(f"{line(name)!r} has {len(pairs)} choices, more than {MAX_CHOICES}")
    choices: dict[str, Any] = {}
    for number, (label, value) in enumerate(pairs, 1):
        told_as = line(label)
        choices[told_as if told_as and told_as not in choices else f"{told_as} [{number}]"] = value
    return choices


def _chosen(word: str, choices: dict[str, Any]) -> Any:
    """Return the choice that a word means: as it is shown, as the server has it, in any case."""
    if word in choices:
        return choices[word]
    if word in choices.values():
        return word
    meant = [value for label, value in choices.items() if label.casefold() == word.casefold()]
    if len(meant) != 1:
        raise DoesNotFit(f"it is one of: {', '.join(choices)}")
    return meant[0]


def _several(choices: dict[str, Any], told: dict[str, Any]) -> Callable[[str], list[Any]]:
    def read(word: str) -> list[Any]:
        try:
            # A choice may itself hold commas.
            found = [_chosen(word, choices)]
        except DoesNotFit:
            words = [each.strip() for each in word.split(",")]
            found = list(dict.fromkeys(_chosen(each, choices) for each in words if each))
        least, most = _count(told, "minItems") or 0, _count(told, "maxItems")
        if len(found) < least or (most is not None and len(found) > most):
            upper = "" if most is None else f", at most {most}"
            raise DoesNotFit(f"choose at least {least}{upper}")
        return found

    return read


def _truth(word: str) -> bool:
    try:
        return _YES[word.casefold()]
    except KeyError:
        raise DoesNotFit("it is yes or no") from None


def _number(word: str, kind: str, told: dict[str, Any]) -> float | int:
    wanted = DoesNotFit(f"it is {_number_hint(told)}")
    if len(word) > NUMBER_CHARACTERS:
        raise wanted
    try:
        number = int(word) if kind == "integer" else float(word)
    except ValueError:
        raise wanted from None
    least, most = _bound(told, "minimum"), _bound(told, "maximum")
    is_within = (least is None or number >= least) and (most is None or number <= most)
    if not math.isfinite(number) or not is_within:
        raise wanted
    return number


def _number_hint(told: dict[str, Any]) -> str:
    least, most = _bound(told, "minimum"), _bound(told, "maximum")
    hint = "a whole number" if told.get("type") == "integer" else "a number"
    hint += "" if least is None else f", {least} or more"
    return hint + ("" if most is None else f", {most} at most")


def _email(word: str) -> None:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+", word):
        raise ValueError


def _uri(word: str) -> None:
    if not urlsplit(word).scheme or " " in word:
        raise ValueError


def _date(word: str) -> None:
    if date.fromisoformat(word).isoformat() != word:
        raise ValueError


def _date_time(word: str) -> None:
    if "T" not in word or datetime.fromisoformat(word).tzinfo is None:
        raise ValueError


# What each format is called, and what fails with ValueError where a text has another.
_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "email": ("an email address", _email),
    "uri": ("an address such as https://example.com", _uri),
    "date": ("a date such as 2026-01-31", _date),
    "date-time": ("a date and time such as 2026-01-31T12:00:00Z", _date_time),
}
_ANY: tuple[str, Callable[[str], object]] = ("text", str)


def _checked(word: str, told: dict[str, Any]) -> str:
    least, most = _count(told, "minLength") or 0, _count(told, "maxLength")
    if len(word) < least or (most is not None and len(word) > most):
        raise DoesNotFit(f"it is {_text_hint(told)}")
    _, check = _FORMATS.get(str(told.get("format")), _ANY)
    try:
        check(word)
    except ValueError:
        raise DoesNotFit(f"it is {_text_hint(told)}") from None
    return word


def _text_hint(told: dict[str, Any]) -> str:
    least, most = _count(told, "minLength"), _count(told, "maxLength")
    hint, _ = _FORMATS.get(str(told.get("format")), _ANY)
    hint += f", {least} characters or more" if least else ""
    return hint + ("" if most is None else f", {most} characters at most")


def _fits(value_of: Callable[[str], Any], choices: dict[str, Any], default: Any) -> bool:
    """Tell whether a default is one of the values that its own field takes."""
    if isinstance(default, list):
        return bool(choices) and all(each in choices.values() for each in default)
    if isinstance(default, bool):
        return True in choices.values()
    try:
        return bool(value_of(str(default)) == default)
    except DoesNotFit:
        return False


def _text(told: dict[str, Any], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _list(told: dict[str, Any], key: str) -> list[Any]:
    value = told.get(key)
    return value if isinstance(value, list) else []


def _bound(told: dict[str, Any], key: str) -> float | int | None:
    value = told.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _count(told: dict[str, Any], key: str) -> int | None:
    value = told.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
