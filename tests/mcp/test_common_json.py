"""What other programs' JSON declares, and what of it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import ConfigurationError
from treadle.mcp.common_json import Found, read_servers


def _read(root: Any, *only: str) -> Found:
    return read_servers(json.dumps(root).encode(), only)


def _problem(data: bytes, *only: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_servers(data, only)
    return caught.value.message


WIKI = {"command": "npx", "args": ["-y", "wiki"], "env": {"WIKI_TOKEN": "${TOKEN:-none}"}}
SEARCH = {"type": "http", "url": "https://s.example/mcp", "headers": {"X-Key": "${KEY}"}}


@pytest.mark.parametrize("root", ["mcpServers", "servers"])
def test_both_forms_declare_the_same(root: str) -> None:
    assert _read({"other": 1, root: {"wiki": WIKI, "search": SEARCH}}) == Found(
        {"wiki": WIKI, "search": SEARCH}, ()
    )
    assert _read({root: {"wiki": WIKI, "search": SEARCH}}, "search").tables == {"search": SEARCH}


def test_comments_and_commas_too_many_are_taken_and_strings_left_alone() -> None:
    text = r"""
    // all of mine
    {"mcpServers": {/* the
      first */ "wiki": {
        "command": "npx", // a comment, with a " in it
        "args": ["http://h//x", "/* none */", "a,]", "\"// none\"", ],
      },
    },
    } /* no end"""
    args = ["http://h//x", "/* none */", "a,]", '"// none"']
    assert read_servers(text.encode()) == Found({"wiki": {"command": "npx", "args": args}}, ())
    assert read_servers(b"\xef\xbb\xbf" + b'{"servers": {}}') == Found({}, ())


def test_what_means_nothing_here_is_told() -> None:
    given = {
        "serverUrl": "https://s.example/",
        "headers": {"X-Number": 5},
        "env": None,
        "disabled": False,
        "autoApprove": ["search"],
        "timeout": 60,
    }
    assert _read({"mcpServers": {"s": given}}) == Found(
        {"s": {"url": "https://s.example/", "headers": {"X-Number": "5"}}},
        (
            "s: autoApprove is left out; name tools in an agent's mcp_allow instead",
            "s: timeout is left out, for it means nothing here",
        ),
    )


def test_disabled_servers_are_left_out_and_told() -> None:
    servers = {"a": {**WIKI, "disabled": True}, "b": {**WIKI, "enabled": False}, "c": WIKI}
    assert _read({"mcpServers": servers}) == Found(
        {"c": WIKI},
        (
            "a: left out, for it is disabled there",
            "b: left out, for it is disabled there",
        ),
    )


def test_names_that_no_server_may_have_here_are_others() -> None:
    assert _read({"servers": {"my wiki": WIKI, "io.x/y__z": SEARCH}}) == Found(
        {"my-wiki": WIKI, "io-x-y-z": SEARCH},
        ("'my wiki' is called my-wiki here", "'io.x/y__z' is called io-x-y-z here"),
    )


def test_an_editors_variables_become_plain_ones_and_what_it_asks_for_is_refused() -> None:
    given = {"command": "${env:HOME}/x", "args": ["${workspaceFolder}/y"]}
    assert _read({"servers": {"a": given}}) == Found(
        {"a": {"command": "${HOME}/x", "args": ["${workspaceFolder}/y"]}},
        ("a: args: only an editor knows that ${…}; write the path instead",),
    )
    asking = {"command": "x", "env": {"KEY": "${input:key}"}}
    root = {"inputs": [{"id": "key"}], "servers": {"asks": asking, "a": WIKI}}
    message = (
        "the server 'asks' has ${input:…}, for which only that editor asks; write ${NAME} there, "
        "a variable of the environment, or leave the server out with --name"
    )
    assert _problem(json.dumps(root).encode()) == message
    assert _read(root, "a").tables == {"a": WIKI}


def test_what_looks_like_a_key_is_told_without_it() -> None:
    secret = "hunter2-hunter2"
    given = {
        "command": "x",
        "args": ["--token", f"ghp_{secret}", "sk-1"],
        "env": {"API_KEY": secret, "MODE": "fast", "WIKI_TOKEN": "${WIKI_TOKEN}"},
    }
    address = {"url": f"https://h/?t=sk-{secret}", "headers": {"Authorization": f"Bearer {secret}"}}
    found = _read({"servers": {"a": given, "b": address}})
    assert found.tables == {"a": given, "b": address}
    what = "holds what looks like a key; put it into a variable and write ${NAME}"
    assert found.notices == (
        f"a: args: {what}",
        f"a: env API_KEY: {what}",
        f"b: url: {what}",
        f"b: headers Authorization: {what}",
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is no JSON: Expecting value: line 1"),
        (b'{\n// x\n"a" 1}', "the file is no JSON: Expecting ':' delimiter: line 3 column 5"),
        (b"\xff", "the file is not UTF-8; save it as UTF-8"),
        (b"[" * 100_000, "the file is nested too deeply"),
        (b'{"servers": {"a": {"args":' + b"[" * 5000, "nested too deeply"),
        (b" " * (4 * 1024**2 + 1), "the file is larger than 4 MiB"),
        (b"[]", 'the file declares no MCP servers: they are the members of {"mcpServers": {'),
        (b'{"mcpServers": []}', "the file declares no MCP servers"),
        (b'{"servers": {"a": "x"}}', "the server 'a' must be an object with its keys"),
        (b'{"servers": {"...": {}}}', "'...' has no letter that a server's name may have; renam"),
        (b'{"servers": {"a b": {}, "a-b": {}}}', "two servers would be called a-b here; rename"),
    ],
)
def test_what_is_no_such_file_says_so(data: bytes, message: str) -> None:
    assert message in _problem(data)


def test_a_name_that_is_not_there_is_guessed() -> None:
    data = b'{"servers": {"wiki": {}, "b": {}}}'
    assert _problem(data, "wikis") == (
        "there is no server 'wikis' in it. Did you mean wiki? There are: wiki, b"
    )


@pytest.mark.parametrize("piece", ["/*", '"', "\\", ",", "//", '"\\', "/* ", ", "])
def test_no_file_takes_long(piece: str) -> None:
    # Whatever takes more than one look at each letter does not end with this test's patience.
    assert "no JSON" in _problem((piece * 500_000).encode())
