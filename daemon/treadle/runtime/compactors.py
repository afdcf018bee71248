"""What compacts one session's conversation: its settings, window, ladder and summariser together.

Owns which of them is meant where several places speak. Refuses to know when and how a
conversation is compacted.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition, LadderFactory
from treadle.agents.model_choice import summary_model
from treadle.agents.own_errors import broken, line_in, said_by
from treadle.compaction.compactor import Compactor
from treadle.compaction.ladder import CompactionEnv
from treadle.compaction.ladders import build_ladder
from treadle.compaction.settings import CompactionSettings
from treadle.compaction.summariser import Summariser
from treadle.models.completion import Completion
from treadle.models.counting import counter_at_hand
from treadle.models.embedded.server import CONTEXT_TOKENS
from treadle.models.provider import Models
from treadle.models.spec import ModelSpec
from treadle.models.windows import DEFAULT_WINDOW, window_of
from treadle.runtime.said import said
from treadle.runtime.summarising import CompletionSummariser
from treadle.stack.stack import App

logger = logging.getLogger(__name__)


class Compactors:
    """Makes the compactor of one thread; it stays the same while what it is made of does.

    It remembers what it met, so it is to live as long as the session.

    Args:
        models: the daemon's.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._made: tuple[object, Compactor] | None = None

    def get(
        self, definition: AgentDefinition, spec: ModelSpec, config: Config, completion: Completion
    ) -> Compactor:
        """Return the compactor as the files have it now.

        Args:
            definition: the agent.
            spec: its model.
            config: the person's configuration.
            completion: that model's.

        Raises:
            InvalidAgent: the ladder that the agent brings cannot be built.
        """
        settings = definition.compaction.over(config.compaction)
        tokens = window(settings, spec)
        made_of = (settings, spec, tokens, definition.own_ladder, completion)
        if self._made is not None and self._made[0] == made_of:
            return self._made[1]
        summariser = self._summariser(settings, spec, completion)
        if definition.own_ladder is None:
            ladder = build_ladder(settings.ladder, summariser, said)
        else:
            ladder = _own(definition.own_ladder, summariser, definition.source)
        # The embedded model reports what it counts, and is no model that a tokenizer knows.
        find = partial(counter_at_hand, spec.model) if spec.kind != "embedded" else None
        compactor = Compactor(settings=settings, window=tokens, ladder=ladder, find_counter=find)
        self._made = made_of, compactor
        return compactor

    def _summariser(
        self, settings: CompactionSettings, spec: ModelSpec, completion: Completion
    ) -> Summariser:
        """Return who writes summaries: another model at the same endpoint, or the session's."""
        chosen = summary_model(spec, settings.summary_model)
        if chosen == spec:
            return CompletionSummariser(completion, window(settings, spec), _name(spec))
        other = self._models.completion(chosen)
        return CompletionSummariser(other, _known_window(chosen), _name(chosen))


def window(settings: CompactionSettings, spec: ModelSpec) -> int:
    """Return a model's window: what a person says, else what is known of it."""
    return settings.window or _known_window(spec)


def _known_window(spec: ModelSpec) -> int:
    if spec.kind == "embedded":
        return CONTEXT_TOKENS
    return window_of(spec.model) or DEFAULT_WINDOW


def _name(spec: ModelSpec) -> str:
    return "the embedded model" if spec.kind == "embedded" else spec.model


def _own(factory: LadderFactory, summariser: Summariser, source: str) -> App[CompactionEnv]:
    """Build the ladder that an agent's file brings.

    Raises:
        InvalidAgent: it cannot be built.
    """
    path = Path(source)
    try:
        ladder = factory(summariser)
    except Exception as error:
        logger.warning("the ladder of %s failed", path, exc_info=error)
        problem = f"its ladder failed: {said_by(error)}"
        raise broken(path, problem, line_in(error, path)) from error
    if not callable(ladder):
        raise broken(path, "its ladder must return what Stack().….build() returns")
    return ladder
