"""MCP servers as a person declares them: in an agent's file, in Python, in `config.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from support.person import write_agent, write_config
from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.config import Config, parse_config
from treadle.agents.definition import AgentDefinition
from treadle.agents.described import Definition
from treadle.agents.markdown import parse_agent
from treadle.agents.options import SessionOptions, narrow
from treadle.agents.servers import servers_of
from treadle.errors import ConfigurationError, InvalidAgent, WouldWiden
from treadle.folders import find_folders
from treadle.mcp.declaration import ServerDeclaration
from treadle.permissions.policy import Policy
from treadle.secrets import known

PATH = Path("/config/agents/mail.md")

EVERY_PROGRAM_KEY = """
command: npx
args: [-y, wiki-server, "${WIKI_PATH:-/srv/wiki}"]
env: {WIKI_TOKEN: "${TOKEN}", MODE: ""}
cwd: ~/wiki
tools: [search, "read_*"]
scope: agent
start: eager
start_seconds: 90
call_seconds: 0.5
stop_seconds: 2
sampling: true
"""

PROGRAM = ServerDeclaration(
    "wiki",
    command="npx",
    args=("-y", "wiki-server", "${WIKI_PATH:-/srv/wiki}"),
    env=(("WIKI_TOKEN", "${TOKEN}"), ("MODE", "")),
    cwd="~/wiki",
    tools=("search", "read_*"),
    scope="agent",
    begin="eager",
    start_seconds=90.0,
    call_seconds=0.5,
    stop_seconds=2.0,
    sampling=True,
)

ADDRESS = ServerDeclaration(
    "search",
    url="https://search.example/@me/mcp?v=1",
    headers=(("X_API_KEY", "${SEARCH_KEY}"),),
    token_env="SEARCH_TOKEN",
    transport="sse",
)


def _parse(front_matter: str, base: Path | None = None) -> AgentDefinition:
    return parse_agent(PATH, f"---\n{front_matter}\n---\nbody".encode(), base=base)


def _problem(front_matter: str) -> str:
    with pytest.raises(InvalidAgent) as caught:
        _parse(front_matter)
    return caught.value.message


def _server(table: str) -> str:
    return f"mcp_servers: {{wiki: {table}}}"


def test_an_agents_file_declares_servers_and_names_others_in_its_own_order() -> None:
    indented = EVERY_PROGRAM_KEY.replace("\n", "\n    ")
    front_matter = f"""permissions: ask
mcp_servers:
  mail:
  wiki:{indented}
  files: {{}}
  search:
    url: https://search.example/@me/mcp?v=1
    headers: {{X_API_KEY: "${{SEARCH_KEY}}"}}
    token_env: SEARCH_TOKEN
    type: sse
mcp_allow: [wiki__search, mail__list]"""
    assert _parse(front_matter) == AgentDefinition(
        "mail",
        instructions="body",
        permissions="ask",
        mcp_servers=("mail", PROGRAM, "files", ADDRESS),
        mcp_allow=("wiki__search", "mail__list"),
        source=str(PATH),
    )
    assert _parse(front_matter).policy == Policy("ask", (), ("wiki__search", "mail__list"))
    assert _parse("mcp_servers: [b, a]").mcp_names == ("b", "a")


def test_a_python_agent_declares_them_alike() -> None:
    described = Definition(
        mcp_servers={"wiki": {"command": Path("/bin/wiki"), "args": ("-v",)}, "mail": None},
        mcp_allow=("wiki__search",),
    ).named("x", "x.py")
    assert described == AgentDefinition(
        "x",
        source="x.py",
        mcp_servers=(ServerDeclaration("wiki", str(Path("/bin/wiki")), ("-v",)), "mail"),
        mcp_allow=("wiki__search",),
    )
    with pytest.raises(ConfigurationError, match="mcp_allow names mail__x, and mcp_servers has no"):
        Definition(mcp_allow=["mail__x"])


def test_the_configuration_declares_them_with_the_same_keys() -> None:
    text = """
[mcp_servers.wiki]
command = "npx"
args = ["-y", "wiki-server", "${WIKI_PATH:-/srv/wiki}"]
cwd = "~/wiki"
tools = ["search", "read_*"]
scope = "agent"
start = "eager"
start_seconds = 90
call_seconds = 0.5
stop_seconds = 2
sampling = true
[mcp_servers.wiki.env]
WIKI_TOKEN = "${TOKEN}"
MODE = ""
[mcp_servers.search]
url = "https://search.example/@me/mcp?v=1"
headers.X_API_KEY = "${SEARCH_KEY}"
token_env = "SEARCH_TOKEN"
transport = "sse"
"""
    assert parse_config(Path("config.toml"), text.encode()) == Config(
        mcp_servers=(PROGRAM, ADDRESS)
    )


@pytest.mark.parametrize(
    ("said", "transport"),
    [
        ("command: x", "stdio"),
        ("command: x, type: stdio", "stdio"),
        ("url: 'http://h/'", "http"),
        ("url: 'http://h/', type: http", "http"),
        ("url: 'http://h/', type: streamable-http", "http"),
        ("url: 'http://h/', type: streamableHttp", "http"),
        ("url: 'http://h/', type: sse", "sse"),
        ("url: 'http://h/', transport: sse", "sse"),
        ("url: 'https://${HOST}:${PORT}/mcp'", "http"),
        ("url: '${WHERE}'", "http"),
    ],
)
def test_how_a_server_is_spoken_with_goes_by_its_type(said: str, transport: str) -> None:
    (server,) = _parse(_server(f"{{{said}}}")).mcp_servers
    assert isinstance(server, ServerDeclaration)
    assert server.transport == transport


@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        (
            "mcp_servers: wiki",
            "line 2: mcp_servers must be a list of servers that config.toml decl",
        ),
        ("mcp_servers: [wiki, wiki]", "line 2: mcp_servers names wiki twice"),
        (
            "mcp_servers:\n  wiki: {command: x}\n  wiki: {command: y}",
            "line 4: 'wiki' stands here a second time; keep one",
        ),
        (
            "mcp_servers:\n  wiki:\n    args: []\n    env: {A: b, A: c}",
            "line 5: 'A' stands here a second time; keep one",
        ),
        ("mcp_servers: [a__b]", "mcp_servers needs names of 1 to 32 letters, digits, - and _, wi"),
        ("mcp_servers: [a_]", "and with no _ at the end, not 'a_'"),
        ("mcp_servers: ['']", "without __ and with no _ at the end, not ''"),
        (f"mcp_servers: [{'a' * 33}]", "needs names of 1 to 32"),
        (f"mcp_servers: [{'a' * 31}__]", "needs names of 1 to 32"),
        ("mcp_servers: [my wiki]", "not 'my wiki'"),
        ("mcp_servers: [5]", "not 5"),
        (f"mcp_servers: [{', '.join(f'a{n}' for n in range(33))}]", "more than 32 servers"),
        (_server("[]"), "wiki: must be a table with a command or a url, not a list"),
        (_server("''"), "wiki: must be a table with a command or a url, not ''"),
        (_server("{args: []}"), "mcp_servers wiki: needs either command, a program, or url, an ad"),
        (_server("{command: x, url: 'http://h'}"), "wiki: needs either command, a program, or url"),
        (
            _server("{comand: x}"),
            "wiki: there is no key 'comand'. Did you mean command? The keys a",
        ),
        (_server("{5: x}"), "wiki: there is no key '5'"),
        (_server("{command: x, headers: {}}"), "wiki: headers means nothing beside command; remov"),
        (_server("{command: x, transport: sse}"), "transport means nothing beside command"),
        (_server("{url: 'http://h', env: {}}"), "wiki: env means nothing beside url; remove one"),
        (_server("{url: 'http://h', type: stdio}"), "wiki: type stdio does not fit: stdio is for"),
        (_server("{command: x, type: http}"), "wiki: type http does not fit: stdio is for a comm"),
        (
            _server("{command: x, type: websocket}"),
            "wiki: type must be one of stdio, http, sse, st",
        ),
        (_server("{url: 'http://h', type: sse, transport: sse}"), "wiki: has both type and trans"),
        (_server("{command: ''}"), "wiki: command must be text on one line, not ''"),
        (_server("{command: 5}"), "wiki: command must be text, not 5; put it in quotes"),
        (_server("{command: ./x}"), "command must be a program's name, an absolute path, or begin"),
        (_server("{command: 'x/y z'}"), "not 'x/y z'; arguments belong in args"),
        (_server("{command: x, args: -y}"), "wiki: args must be a list such as [--port, '80']"),
        (_server("{command: x, args: [a, 0755]}"), "wiki: args has word 2, which must be text; pu"),
        (_server('{command: x, args: ["\\0"]}'), "args has word 1, which must not hold the char"),
        (_server('{command: x, args: ["\\ud800"]}'), "must not hold half of a surrogate pair"),
        (_server("{command: x, args: ['${env:A}']}"), "args has word 1, which must hold variables"),
        (_server("{command: x, args: ['${A']}"), "as ${NAME} or ${NAME:-else}, and a plain ${ as"),
        (
            _server("{command: x, env: [A]}"),
            "wiki: env must be a table of environment variables, n",
        ),
        (_server("{command: x, env: {a-b: c}}"), "env must be the name of an environment variable"),
        (_server("{command: x, env: {A: 5}}"), "wiki: env has A, which must be text; put it in qu"),
        (_server("{command: x, cwd: y}"), "cwd must be an absolute path or begin with ~/, not 'y'"),
        (_server("{url: 'ftp://h'}"), "wiki: url must be an http:// or https:// address, not 'ftp"),
        (_server("{url: 'http://${A}:x/'}"), "wiki: url must be an http:// or https:// address"),
        (_server("{url: 'http://h', headers: [A]}"), "headers must be a table of headers, not a l"),
        (_server("{url: 'http://h', headers: {'a b': c}}"), "headers must name HTTP headers, such"),
        (_server("{url: 'http://h', headers: {Host: c}}"), "headers must not hold Host, which HTT"),
        (_server("{url: 'http://h', headers: {A: b, a: c}}"), "wiki: headers names a twice"),
        (
            _server('{url: "http://h", headers: {A: "b\\nc"}}'),
            "headers has A, which must be printa",
        ),
        (
            _server("{url: 'http://h', token_env: T, headers: {authorization: b}}"),
            "wiki: has both token_env and a header Authorization; remove one of the two",
        ),
        (_server("{command: x, tools: '*'}"), "tools must be a list such as [search, 'read_*'], n"),
        (_server("{command: x, scope: daemon}"), "wiki: scope must be one of session, agent, not"),
        (_server("{command: x, start: now}"), "wiki: start must be one of lazy, eager, not 'now'"),
        (_server("{command: x, start_seconds: 0}"), "wiki: start_seconds must be a number of seco"),
        (_server("{command: x, stop_seconds: 2.1}"), "wiki: stop_seconds must be at most 2, not 2"),
        (_server("{command: x, sampling: 1}"), "wiki: sampling must be true or false, not 1"),
        ("mcp_allow: wiki__x", "line 2: mcp_allow must be a list such as [mail__list_threads], no"),
        ("mcp_allow: [search]", "mcp_allow needs whole names of tools such as mail__list_threads"),
        ("mcp_allow: ['wiki__*']", "no pattern, for a server may add what fits it"),
        ("mcp_allow: [wiki__]", "not 'wiki__'"),
        ("mcp_allow: [__x]", "not '__x'"),
        (f"mcp_allow: [wiki__{'x' * 60}]", "mcp_allow needs whole names"),
        (
            "mcp_servers: [wiki]\nmcp_allow: [wiki__a, wiki__a]",
            "line 3: mcp_allow names wiki__a tw",
        ),
        (
            "mcp_servers: [wiki]\nmcp_allow: [wikis__a]",
            "line 3: mcp_allow names wikis__a, and mcp_servers has no server wikis. Did you mean "
            "wiki? There are: wiki",
        ),
    ],
)
def test_what_is_wrong_names_line_server_key_and_what_is_valid(
    front_matter: str, message: str
) -> None:
    assert message in _problem(front_matter)


def test_the_configuration_says_what_is_wrong_in_the_same_words() -> None:
    for text, message in (
        ("mcp_servers = 3", "config.toml: mcp_servers must be tables, a line [mcp_servers.NAME]"),
        ("[mcp_servers]\nwiki = 3", "[mcp_servers] wiki: must be a table with a command or a url"),
        ("[mcp_servers.wiki]", "[mcp_servers] wiki: needs either command, a program, or url"),
        ("[mcp_servers.a__b]\ncommand='x'", "[mcp_servers] needs names of 1 to 32 letters"),
        ("[mcp_servers.wiki]\nurl='x'", "[mcp_servers] wiki: url must be an http:// or https://"),
        ("[mcp_server.wiki]", "there is no key 'mcp_server'. Did you mean mcp_servers?"),
    ):
        tomllib.loads(text)
        with pytest.raises(InvalidAgent) as caught:
            parse_config(Path("config.toml"), text.encode())
        assert message in caught.value.message


@pytest.mark.parametrize(
    "table",
    [
        "{url: 'https://me:hunter2@h/'}",
        "{url: 'https://h/', token_env: hunter2-x}",
        "{url: 'https://h/', headers: {hunter2 x: y}}",
        '{url: "https://h/", headers: {A: "hunter2\\n"}}',
        "{url: 'https://h/', headers: {A: 'hunter2 ${env:B}'}}",
        "{command: x, env: {A: 'hunter2 ${env:B}'}}",
        "{command: x, args: ['--key=hunter2', '${']}",
    ],
)
def test_what_may_be_a_key_is_never_repeated(table: str) -> None:
    assert "hunter2" not in _problem(_server(table))


def test_in_a_project_programs_and_folders_begin_at_the_projects_folder(tmp_path: Path) -> None:
    front_matter = """mcp_servers:
  a: {command: ./tools/a, cwd: sub}
  b: {command: b, args: [./x], cwd: ~/b}
  c: {command: "${HOME}/c"}
  d:"""
    assert _parse(front_matter, tmp_path).mcp_servers == (
        ServerDeclaration("a", str(tmp_path / "tools" / "a"), cwd=str(tmp_path / "sub")),
        ServerDeclaration("b", "b", ("./x",), cwd="~/b"),
        ServerDeclaration("c", "${HOME}/c"),
        "d",
    )


def test_names_mean_what_the_configuration_declares_at_that_moment() -> None:
    wiki, own = ServerDeclaration("wiki", "w"), ServerDeclaration("own", "o")
    agent = AgentDefinition("x", mcp_servers=("wiki", own), source="x.md")
    config = Config(mcp_servers=(ServerDeclaration("other", "z"), wiki))
    assert servers_of(agent, config) == (wiki, own)
    with pytest.raises(InvalidAgent) as caught:
        servers_of(agent, Config(mcp_servers=(ServerDeclaration("wikis", "z"),)))
    assert caught.value.message == (
        "the agent x has the MCP server wiki, which config.toml does not declare. Did you mean "
        "wikis? There are: wikis; add a table [mcp_servers.wiki]"
    )
    assert caught.value.data == {"path": "x.md"}


def test_an_agent_whose_server_nobody_declares_is_listed_as_a_problem() -> None:
    path = write_agent("inbox", mcp_servers="[wiki]")
    catalogue = Catalogue(find_folders().config)
    agents, problems = catalogue.list()
    assert [agent.name for agent in agents] == ["assistant", "inbox"]
    assert problems == [
        AgentProblem(
            str(path),
            "the agent inbox has the MCP server wiki, which config.toml does not declare. There "
            "are: none; add a table [mcp_servers.wiki]",
        )
    ]
    write_config("[mcp_servers.wiki]\ncommand = 'wiki'\n")
    assert catalogue.list()[1] == []


def test_what_servers_are_handed_as_secret_is_secret_from_the_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {f"SD_{name}": f"value-of-{name}" for name in ("TOK", "HEAD", "CONF", "PLAIN")}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    wiki = "{url: 'http://h/', token_env: SD_TOK, headers: {X-Key: 'Key ${SD_HEAD}'}}"
    plain = "{command: x, args: ['${SD_PLAIN}']}"
    write_agent("inbox", mcp_servers=f"{{wiki: {wiki}, plain: {plain}}}")
    write_config('[mcp_servers.c]\nurl = "http://h/"\nheaders.Authorization = "${SD_CONF:-x}"\n')
    Catalogue(find_folders().config).list()
    assert known().redact(" ".join(values.values())) == (
        "[secret SD_TOK] [secret SD_HEAD] [secret SD_CONF] value-of-PLAIN"
    )


def test_a_sessions_tools_may_be_some_of_a_servers_and_others_are_none() -> None:
    agent = AgentDefinition("x", mcp_servers=("wiki", ServerDeclaration("a", "x")))
    some = narrow(agent, SessionOptions(tools=("read", "wiki__b", "a__c")))
    assert (some.tools, some.mcp_tools) == (("read",), ("wiki__b", "a__c"))
    assert narrow(agent, SessionOptions(tools=("read",))).mcp_tools == ()
    assert narrow(agent, SessionOptions(max_turns=3)).mcp_tools is None
    assert narrow(some, SessionOptions(tools=("a__c",))).mcp_tools == ("a__c",)
    for narrowed, tool, message in (
        (agent, "mail__x", "the agent has no MCP server mail, so no tool mail__x; it has: wiki, a"),
        (some, "a__d", "of MCP servers' tools the agent has only: wiki__b, a__c"),
    ):
        with pytest.raises(WouldWiden) as caught:
            narrow(narrowed, SessionOptions(tools=(tool,)))
        assert (caught.value.message, caught.value.data["field"]) == (message, "tools")
