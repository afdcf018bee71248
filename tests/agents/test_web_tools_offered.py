"""Which agents are offered `fetch` and `web_search`."""

from __future__ import annotations

import pytest

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.options import SessionOptions, advertised_tools, narrow
from treadle.permissions.modes import PermissionMode
from treadle.tools.web.backend import SearchBackend

SEARCHING = Config(search=SearchBackend("https://s.example/?q={query}"))


def _offered(
    mode: PermissionMode, hosts: tuple[str, ...] = (), config: Config | None = None
) -> set[str]:
    """Return which of the two tools a model is told of."""
    agent = narrow(AgentDefinition("x", permissions=mode, fetch_allow=hosts), SessionOptions())
    tools = advertised_tools(agent) if config is None else advertised_tools(agent, config)
    return {tool.spec.name for tool in tools} & {"fetch", "web_search"}


@pytest.mark.parametrize("mode", ["read_only", "ask", "auto"])
def test_fetch_is_offered_where_hosts_are_named_in_every_mode(mode: PermissionMode) -> None:
    assert _offered(mode, ("docs.python.org",)) == {"fetch"}
    assert _offered(mode) == set()


def test_web_search_is_offered_where_a_backend_is_set_up_and_the_mode_can_allow_it() -> None:
    assert _offered("ask", config=SEARCHING) == {"web_search"}
    assert _offered("auto", config=SEARCHING) == {"web_search"}
    assert _offered("read_only", config=SEARCHING) == set()
    assert _offered("auto", config=Config()) == set()
    assert _offered("auto") == set()
