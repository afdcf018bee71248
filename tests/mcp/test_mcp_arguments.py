"""Arguments judged by a stranger's schema: told what is wrong, and never refused in doubt."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec
import pytest

from treadle.mcp import judging
from treadle.mcp.judging import Judge

OLD = "http://json-schema.org/draft-07/schema#"

# Runs for longer than anybody waits, wherever it is matched against the text below.
ENDLESS = "^(a+)+$"
TEXT = "a" * 60 + "b"


def complaint(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """What is said of arguments; nothing where they pass."""
    try:
        assert Judge(schema).read(arguments) == arguments
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "arguments", "said"),
    [
        ({"type": "object"}, {"any": 1}, ""),
        ({}, {"any": 1}, ""),
        ({"required": ["q"]}, {}, "'q' is a required property"),
        (of(q={"type": "integer"}), {"q": "x"}, "'x' is not of type 'integer' - at `$.q`"),
        (
            of(q={"items": {"type": "integer"}}),
            {"q": [1, "x"]},
            "'x' is not of type 'integer' - at `$.q[1]`",
        ),
        (
            {**of(q={}), "additionalProperties": False},
            {"r": 1},
            "Additional properties are not allowed ('r' was unexpected)",
        ),
        (of(q={"enum": ["a", "b"]}), {"q": "c"}, "'c' is not one of ['a', 'b'] - at `$.q`"),
        (of(q={"not": {"type": "string"}}), {"q": "c"}, "'c' should not be valid under"),
        (of(q={"$ref": "#/$defs/n"}) | {"$defs": {"n": {"minimum": 5}}}, {"q": 1}, "1 is less"),
        (of(q={"uniqueItems": True}), {"q": [1, 1]}, "[1, 1] has non-unique elements"),
        # The draft is the one that the schema names: an array of schemas is an old form.
        ({"$schema": OLD, **of(q={"items": [{"type": "null"}]})}, {"q": [1]}, "1 is not of type"),
        ({"$schema": "urn:unknown", "required": ["q"]}, {}, "'q' is a required property"),
    ],
)
def test_arguments_that_do_not_fit_are_told_with_their_place(
    schema: dict[str, Any], arguments: dict[str, Any], said: str
) -> None:
    told = complaint(schema, arguments)
    assert told.startswith(said) if said else not told


@pytest.mark.parametrize(
    "schema",
    [
        of(q={"pattern": ENDLESS}),
        of(q={"not": {"pattern": ENDLESS}}),
        of(q={"oneOf": [{"pattern": ENDLESS}, {"pattern": "x"}]}),
        of(q={"oneOf": [{"not": {"pattern": ENDLESS}}, {"type": "string"}]}),
        of(q={"if": {"pattern": ENDLESS}, "else": False}),
        of(q={"type": "string", "format": "date-time"}),
        {"patternProperties": {ENDLESS: False, "^q": {}}, "additionalProperties": False},
        {"propertyNames": {"pattern": ENDLESS}},
        {"unevaluatedProperties": False, "patternProperties": {"^q$": {}}},
        # A part that names a draft of its own would be judged by the library's own rules.
        of(q={"$schema": OLD, "pattern": ENDLESS}),
    ],
)
def test_no_pattern_of_a_stranger_is_ever_run(schema: dict[str, Any]) -> None:
    assert complaint(schema, {"q": TEXT}) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": []},
        {"required": "q"},
        {"properties": []},
        {"properties": {"q": []}},
        of(q={"required": True}),
        of(q={"minimum": 0, "exclusiveMinimum": True}),
        of(q={"anyOf": []}),
        of(q={"$ref": "#/nowhere"}),
        of(q={"$ref": "#/properties/q"}),
        {"$ref": "#"},
        {"$schema": 5, "type": 5},
    ],
)
def test_a_broken_schema_takes_no_tool_away(schema: dict[str, Any]) -> None:
    assert complaint(schema, {"q": 1}) == ""


def test_a_schema_that_lies_elsewhere_is_not_looked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert complaint(of(q={"$ref": "http://127.0.0.1:1/schema"}), {"q": 1}) == ""


def test_a_schema_that_takes_too_long_lets_arguments_pass() -> None:
    # Each definition asks the next one twice: 2**40 questions.
    defs: dict[str, Any] = {
        f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)
    }
    defs["d40"] = {"type": "string"}
    assert complaint({"$ref": "#/$defs/d0", "$defs": defs}, {}) == ""


def test_no_time_at_all_lets_arguments_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaint({"required": ["q"]}, {})
    monkeypatch.setattr(judging, "BUDGET_SECONDS", -1)
    assert complaint({"required": ["q"]}, {}) == ""


def test_a_schema_nested_beyond_reason_lets_arguments_pass() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        schema = {"not": schema}
    assert complaint(schema, {}) == ""


def test_a_long_list_is_not_compared_item_by_item() -> None:
    items = [{"n": number % 1000} for number in range(100_000)]
    assert complaint(of(q={"uniqueItems": True}), {"q": items}) == ""


def test_what_is_quoted_back_is_short() -> None:
    told = complaint(of(q={"type": "integer"}), {"q": "x" * 100_000})
    assert told.endswith("… - at `$.q`")
    assert len(told) < 400


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$dynamicAnchor": "a", "$dynamicRef": "#a"},
        {"$id": "urn:a", "allOf": [{"$ref": "urn:a"}]},
        {"properties": {"q": {"$ref": "#/properties/q"}}, "required": ["q"]},
        {"not": {"$ref": "#"}},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$schema": OLD, "$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_refers_to_itself_without_end_lets_arguments_pass(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "BUDGET_SECONDS", 3600.0)
    assert complaint({"type": "object", **schema}, {"q": 1}) == ""


def test_arguments_that_nest_as_far_as_anybody_means_are_judged() -> None:
    tree = {"type": "object", "properties": {"in": {"$ref": "#"}, "n": {"type": "integer"}}}
    arguments: dict[str, Any] = {"n": "x"}
    for _ in range(20):
        arguments = {"in": arguments}
    assert complaint(tree, arguments).startswith("'x' is not of type 'integer' - at `$.in.in.in")
