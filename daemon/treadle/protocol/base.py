"""The base of every wire struct: camelCase, unknown fields ignored, unset ones absent."""

from __future__ import annotations

import msgspec


class WireStruct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """A JSON object on the wire; a member that stands at its default is left out."""


class Address(WireStruct):
    """The pair that names a session: one thread for each."""

    agent: str
    instance: str


class Empty(WireStruct):
    """Params or a result without members."""


class WireUsage(WireStruct):
    """Tokens, as the provider counted them."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
