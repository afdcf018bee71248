"""The base of every wire struct: camelCase, unknown fields ignored, unset ones absent."""

from __future__ import annotations

from typing import Any, TypeAlias, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _WireMeta(msgspec.StructMeta):
    """Makes `kw_only` inherited, which msgspec does not, so that no struct has to repeat it."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> Any:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **config})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class WireStruct(
    msgspec.Struct, metaclass=_WireMeta, rename="camel", omit_defaults=True, frozen=True
):
    """A JSON object on the wire; a member that stands at its default is left out."""


class Address(WireStruct):
    """The pair that names a session: one thread for each."""

    agent: str
    instance: str


ProgressToken: TypeAlias = int | str
"""What a client names a piece of progress by."""


class Empty(WireStruct):
    """Params or a result without members."""


class WireUsage(WireStruct):
    """Tokens, as the provider counted them."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
