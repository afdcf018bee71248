"""`Definition`: an agent as a Python file describes it.

Owns what a person writes in such a file. The keys and what they may hold are those of front
matter; refuses to know how a file is found and loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from treadle.agents import checks
from treadle.agents.definition import AgentDefinition, LadderFactory, OwnLayer
from treadle.agents.markdown import check_together, checked
from treadle.agents.own_layer import Guarded
from treadle.errors import ConfigurationError
from treadle.stack.stack import App, LayerFactory
from treadle.tools.builtin import BUILTIN
from treadle.tools.tool import CallEnv, Tool
from treadle.turn.env import Env


class Definition:
    """An agent, as the function `agent()` of a file `agents/<name>.py` returns it.

    >>> def agent() -> Definition:
    ...     return Definition(
    ...         "You know how many people live in Norway.",
    ...         description="Counts people",
    ...         tools=["read"],
    ...         own_tools=[inhabitants],
    ...     ).use(TokenBudget, limit=1_000)

    The file is loaded again when it changes, and by a few seconds it has to be done: what takes
    time belongs into a tool or a layer.

    Args:
        instructions: the system prompt.
        own_tools: functions under `@tool`, beside the built-in ones that `tools` names; what the
            agent's permissions never allow is not told to the model.
        pipeline: what each call of a tool runs through, in place of `tools.pipeline.default_stack`;
            one without `Permit` asks nobody and refuses nothing. Sub-agents keep the default.
        ladder: called with what writes summaries, for each turn; returns what its conversations
            are compacted by, in place of the ladder that `compaction` names.
        keys: those of front matter: description, model, permissions, sandbox, cwd, tools and so on.

    Raises:
        ConfigurationError: a key, a value or a tool that cannot be.
    """

    def __init__(
        self,
        instructions: str = "",
        *,
        own_tools: Sequence[Tool] = (),
        pipeline: App[CallEnv] | None = None,
        ladder: LadderFactory | None = None,
        **keys: Any,
    ) -> None:
        try:
            self._fields = {key: checked(key, _plain(value)) for key, value in keys.items()}
            check_together(self._fields)
            self._instructions = checks.text(_named("instructions", instructions, checks.text))
            self._tools = _tools(own_tools)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        if not (pipeline is None or callable(pipeline)):
            raise ConfigurationError("pipeline must be what default_stack().build() returns")
        if not (ladder is None or callable(ladder)):
            raise ConfigurationError("ladder must be a function that takes a summariser")
        self._pipeline = pipeline
        self._ladder = ladder
        self._layers: list[tuple[LayerFactory[Env], dict[str, Any]]] = []

    def use(self, layer: LayerFactory[Env], /, **options: Any) -> Self:
        """Add a layer inside the loop and around the tools, inside those already added.

        It sees every pass: a model call and the results of what that called.

        Args:
            layer: called as `layer(app, **options)` for each turn; what it raises by itself ends
                the turn as `invalid_agent`.
            options: whatever the layer takes.

        Raises:
            ConfigurationError: it cannot be called.
        """
        if not callable(layer):
            raise ConfigurationError(f"a layer is a class or a function, not {layer!r:.60}")
        self._layers.append((layer, options))
        return self

    def named(self, name: str, source: str) -> AgentDefinition:
        """Return the definition under a name, as the daemon takes it."""
        return AgentDefinition(
            name=name,
            instructions=self._instructions,
            source=source,
            own_tools=self._tools,
            own_pipeline=self._pipeline,
            own_ladder=self._ladder,
            own_layers=tuple(
                OwnLayer(Guarded, {"own": layer, "made_with": options, "source": source})
                for layer, options in self._layers
            ),
            **self._fields,
        )


def _plain(value: Any) -> Any:
    """Return a value as front matter would have it; Python has more kinds of lists and paths."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | set | frozenset):
        return list(value) if isinstance(value, tuple) else sorted(value)
    return str(value) if isinstance(value, Path) else value


def _named(key: str, value: Any, check: checks.Check) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from error


def _tools(given: Sequence[Tool]) -> tuple[Tool, ...]:
    """Check the agent's own tools.

    Raises:
        ValueError: one is no tool, or two have one name.
    """
    if not isinstance(given, list | tuple):
        raise ValueError("own_tools must be a list of functions under @tool")
    names = list(BUILTIN)
    for tool in given:
        if not isinstance(tool, Tool):
            what = getattr(tool, "__name__", None) or repr(tool)
            raise ValueError(f"own_tools holds {what:.60}, which is no function under @tool")
        if tool.spec.name in names:
            whose = "a built-in tool" if tool.spec.name in BUILTIN else "another one"
            raise ValueError(f"own_tools holds {tool.spec.name}, which is {whose}'s name already")
        names.append(tool.spec.name)
    return tuple(given)
