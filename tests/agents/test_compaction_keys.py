"""The keys of compaction: what files may say, how they come together, what is told of slips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.agents.compaction_keys import CompactionKeys
from treadle.agents.config import parse_config
from treadle.agents.described import Definition
from treadle.agents.markdown import parse_agent
from treadle.compaction.ladder import rest
from treadle.compaction.settings import CompactionSettings
from treadle.errors import ConfigurationError, InvalidAgent

AGENT = Path("/config/agents/mail.md")
CONFIG = Path("/config/config.toml")

WHOLE = """---
compaction:
  window: 200000
  compact_at: 0.8
  compact_to: 0.5
  keep_steps: 3
  ladder: cheapest
  summary_model: gpt-5-nano
---
You sort mail.
"""
WHOLE_SETTINGS = CompactionSettings(
    200_000, 0.8, 0.5, 3, ("tool_results", "sliding_window", "summarize"), "gpt-5-nano"
)


def _of_agent(value: str) -> CompactionKeys:
    return parse_agent(AGENT, f"---\nmodel: m\ncompaction: {value}\n---\nHi".encode()).compaction


def _of_config(text: str) -> CompactionKeys:
    return parse_config(CONFIG, text.encode()).compaction


def test_an_agent_says_all_of_it() -> None:
    said = parse_agent(AGENT, WHOLE.encode()).compaction
    assert said.over(CompactionKeys()) == WHOLE_SETTINGS


def test_who_says_nothing_gets_the_defaults() -> None:
    assert _of_agent("{}").over(_of_config("")) == CompactionSettings()


def test_an_agent_comes_before_the_configuration_key_by_key() -> None:
    config = _of_config("[compaction]\nwindow = 9000\nkeep_steps = 0\nladder = 'cheapest'\n")
    assert _of_agent("{window: 500, ladder: [sliding_window]}").over(config) == (
        CompactionSettings(window=500, keep_steps=0, ladder=("sliding_window",))
    )


def test_an_agent_that_names_one_part_of_the_window_speaks_for_both() -> None:
    config = _of_config("[compaction]\ncompact_at = 0.3\ncompact_to = 0.2\n")
    assert _of_agent("{compact_at: 0.9}").over(config) == CompactionSettings(compact_at=0.9)
    assert _of_agent("{}").over(config) == CompactionSettings(compact_at=0.3, compact_to=0.2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("faithful", "must be a table such as {window: 200000, ladder: faithful}, not 'faithful'"),
        ("", "must be a table such as {window: 200000, ladder: faithful}, not nothing"),
        ("{windw: 5}", "there is no key 'windw'. Did you mean window? The keys are: window, comp"),
        ("{5: 5}", "there is no key '5'."),
        ("{window: 0}", "window must be a whole number from 1 to 20000000, not 0"),
        ("{window: 1.5}", "window must be a whole number from 1 to 20000000, not 1.5"),
        ("{compact_at: 0}", "compact_at must be a part of the window, above 0 and up to 1, not 0"),
        ("{compact_at: 70}", "compact_at must be a part of the window, above 0 and up to 1, not"),
        ("{compact_to: true}", "compact_to must be a part of the window, above 0 and up to 1"),
        ("{compact_to: .nan}", "compact_to must be a part of the window, above 0 and up to 1"),
        ("{compact_at: 0.3}", "cannot be so: compaction needs 0 < compact_to < compact_at <= 1"),
        ("{keep_steps: -1}", "keep_steps must be a whole number from 0 to 1000, not -1"),
        ("{ladder: fast}", "ladder must be faithful or cheapest, or a list out of tool_results,"),
        ("{ladder: {}}", "ladder must be faithful or cheapest, or a list out of"),
        ("{ladder: []}", "ladder must name a strategy at least: tool_results, summarize, slidin"),
        ("{ladder: [sumarize]}", "ladder names 'sumarize', which is not there. Did you mean summ"),
        ("{ladder: [summarize, summarize]}", "ladder names summarize twice"),
        ("{summary_model: 5}", "summary_model must be text, not 5; put it in quotes"),
    ],
)
def test_a_slip_is_told_with_its_line_and_what_is_valid(value: str, message: str) -> None:
    with pytest.raises(InvalidAgent) as caught:
        _of_agent(value)
    assert caught.value.message.startswith("mail.md, line 3: compaction ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("compaction = 3", "compaction must be a table"),
        ("[compaction]\nmodel = 'x'", "[compaction] there is no key 'model'"),
        ("[compaction]\nwindow = -1", "[compaction] window must be a whole number"),
        ("[compaction]\nladder = 'fast'", "[compaction] ladder must be faithful or cheapest"),
        (
            "[compaction]\ncompact_to = 0.9",
            "[compaction] compaction needs 0 < compact_to < comp",
        ),
    ],
)
def test_a_slip_in_the_configuration_is_told(text: str, message: str) -> None:
    with pytest.raises(InvalidAgent) as caught:
        _of_config(text)
    assert caught.value.message.startswith(f"config.toml: {message}")


def test_a_python_agent_says_it_as_a_dict_and_may_bring_a_ladder() -> None:
    def ladder(_: object) -> Any:
        return rest

    definition = Definition(
        "Hi.", compaction={"window": 700, "ladder": ("summarize",)}, ladder=ladder
    ).named("mail", "mail.py")
    assert definition.compaction == CompactionKeys({"window": 700, "ladder": ("summarize",)})
    assert definition.own_ladder is ladder


def test_a_python_agent_is_told_of_its_slips() -> None:
    with pytest.raises(ConfigurationError, match="compaction window must be a whole number"):
        Definition("Hi.", compaction={"window": "many"})
    with pytest.raises(ConfigurationError, match="ladder must be a function that takes a summ"):
        Definition("Hi.", ladder="faithful")  # type: ignore[arg-type]  # what a person may write
