"""The models of one daemon: a completion for each session, what is behind them shared.

Owns the endpoints' clients and the embedded model's process. Refuses to know sessions.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.models.completion import Completion
from treadle.models.openai import OpenAICompletion
from treadle.models.openai.client import Endpoint
from treadle.models.scripted import ScriptedFile
from treadle.models.spec import SCRIPTED_PREFIX, ModelSpec

if TYPE_CHECKING:
    from treadle.models.embedded.model import EmbeddedModel

logger = logging.getLogger(__name__)


class Models:
    """Makes completions; close it when the last session is gone.

    Args:
        cache: the folder of the embedded model's file.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._endpoints: dict[tuple[str | None, str, float], Endpoint] = {}
        self._embedded: EmbeddedModel | None = None

    def completion(self, spec: ModelSpec) -> Completion:
        """Return a completion for one session; nothing is read, sent or started yet."""
        if spec.kind == "embedded":
            return self._embedded_model().completion()
        if spec.kind == "scripted":
            return ScriptedFile(spec.model.removeprefix(SCRIPTED_PREFIX))
        key = (spec.base_url, spec.api_key, spec.timeout_seconds)
        endpoint = self._endpoints.setdefault(key, Endpoint(*key))
        return OpenAICompletion(spec.model, endpoint=endpoint)

    async def close(self) -> None:
        """Close connections and stop the embedded model; one that fails is logged."""
        closing = [endpoint.close() for endpoint in self._endpoints.values()]
        self._endpoints.clear()
        if self._embedded is not None:
            closing.append(self._embedded.close())
            self._embedded = None
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                logger.warning("a model could not be closed: %r", outcome)

    def _embedded_model(self) -> EmbeddedModel:
        from treadle.models.embedded.model import EmbeddedModel

        if self._embedded is None:
            self._embedded = EmbeddedModel(self._cache)
        return self._embedded
