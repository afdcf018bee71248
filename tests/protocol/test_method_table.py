"""The table of methods agrees with everything that derives from it."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import get_args

import msgspec
import pytest
from lsprotocol import types

from treadle.protocol import (
    agents,
    base,
    client,
    editor,
    lifecycle,
    mcp,
    methods,
    notifications,
    sessions,
)
from treadle.protocol.base import WireStruct
from treadle.protocol.methods import METHODS, Method, own_names
from treadle.server.dispatch import FollowedBy
from treadle.server.handlers import HANDLERS

MODULES = (agents, base, client, editor, lifecycle, mcp, notifications, sessions)

# What has a reply: the client's requests, and ours.
ASKING = ("request", "client_request")

# The connection answers these itself, for it owns the lifecycle.
LIFECYCLE = {"initialize", "shutdown"}


def _structs(module: ModuleType) -> list[type[WireStruct]]:
    return [
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
    ]


STRUCTS = [struct for module in MODULES for struct in _structs(module)]
ROWS = list(METHODS.values())


def test_every_request_has_a_handler_and_every_handler_a_row() -> None:
    requests = {row.name for row in ROWS if row.kind == "request"}
    assert set(HANDLERS) == requests - LIFECYCLE


def test_what_initialize_announces_is_the_table_without_what_is_lsps() -> None:
    announced = {*own_names("request"), *own_names("event"), *own_names("client_request")}
    ours = {name for name in METHODS if name.startswith(("agent/", "daemon/", "mcp/", "session/"))}
    assert announced == ours | {"workspace/requestTrust"}
    assert own_names("notification") == []


def test_what_is_lsps_is_known_to_lsprotocol_under_the_same_name_and_kind() -> None:
    of_lsp = {row.name: row for row in ROWS if row.name not in own_names(row.kind)}
    kinds = {name: kind for kind in (*ASKING, "event") for name in own_names(kind)}
    assert not kinds.keys() & of_lsp.keys()
    for name, row in of_lsp.items():
        message, reply = types.METHOD_TO_TYPES[name][:2]
        assert message is not None, name
        assert (reply is not None) == (row.kind in ASKING), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_fits_its_kind(row: Method) -> None:
    assert row.name not in HANDLERS or row.kind == "request"
    assert row.result is None or row.kind in ASKING
    assert not (row.lane or row.without_id) or row.kind == "request"
    assert row.since <= methods.PROTOCOL_VERSION
    msgspec.json.Decoder(row.params)  # its types are ones that can be decoded
    if row.name in own_names("event") and row.name.startswith("session/"):
        assert issubclass(row.params, notifications.SessionNotification)


@pytest.mark.parametrize("row", [r for r in ROWS if r.kind == "request"], ids=lambda row: row.name)
def test_a_handler_says_the_types_of_its_row(row: Method) -> None:
    if row.name in LIFECYCLE or row.name not in own_names("request"):
        return
    hints = inspect.get_annotations(HANDLERS[row.name], eval_str=True)
    returned = hints["return"]
    assert hints["params"] == row.params
    # Beside its result a handler may return what follows its reply.
    assert row.result == returned or {row.result, FollowedBy} == {*get_args(returned)}


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_wire_struct_says_what_it_is(struct: type[WireStruct]) -> None:
    said = struct.__dict__.get("__doc__") or ""
    assert said.strip().endswith("."), f"{struct.__name__} has no docstring of its own"


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_wire_struct_is_frozen_and_speaks_camel_case(struct: type[WireStruct]) -> None:
    assert issubclass(struct, WireStruct)
    assert struct.__struct_config__.frozen
    for field in msgspec.structs.fields(struct):
        assert "_" not in field.encode_name
    msgspec.json.schema(struct)


def test_every_struct_is_used_by_a_row() -> None:
    reached: set[type] = set()
    for row in ROWS:
        for struct in (row.params, row.result):
            if struct is not None:
                _reach(msgspec.inspect.type_info(struct), reached)
    bases = {WireStruct, base.Address, notifications.SessionNotification, client.SessionRequest}
    # Read from `Any`, so that an `experimental` of any shape is let in.
    by_hand = {lifecycle.ClientOptions}
    assert set(STRUCTS) - reached - bases - by_hand == set()


def _reach(info: object, reached: set[type]) -> None:
    """Collect the structs that a type holds, at any depth."""
    if isinstance(info, msgspec.inspect.StructType):
        if info.cls in reached:
            return
        reached.add(info.cls)
        for field in info.fields:
            _reach(field.type, reached)
    elif isinstance(info, msgspec.inspect.UnionType):
        for kind in info.types:
            _reach(kind, reached)
    elif isinstance(info, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        _reach(info.item_type, reached)
    elif isinstance(info, msgspec.inspect.TupleType):
        for kind in info.item_types:
            _reach(kind, reached)
    elif isinstance(info, msgspec.inspect.DictType):
        _reach(info.value_type, reached)
