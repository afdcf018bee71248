"""Agent files: what they may say, and how a person is told what they may not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.agents.definition import AgentDefinition
from treadle.agents.markdown import parse_agent
from treadle.errors import InvalidAgent

deterministic = settings(derandomize=True, database=None, deadline=None)

PATH = Path("/config/agents/mail.md")

WHOLE = """---
description: Sorts my mail
model: gpt-5-mini   # a comment
base_url: https://example.org/v1
api_key_env: MAIL_MODEL_KEY
permissions: ask
sandbox: local
cwd: /srv/mail
tools: [read]
max_turns: 25
---
You sort mail.
"""

WHOLE_DEFINITION = AgentDefinition(
    name="mail",
    description="Sorts my mail",
    instructions="You sort mail.",
    model="gpt-5-mini",
    base_url="https://example.org/v1",
    api_key_env="MAIL_MODEL_KEY",
    permissions="ask",
    sandbox="local",
    cwd=Path("/srv/mail"),
    tools=("read",),
    max_turns=25,
    source=str(PATH),
)


def _parse(text: str | bytes) -> AgentDefinition:
    return parse_agent(PATH, text if isinstance(text, bytes) else text.encode())


def _problem(text: str | bytes) -> str:
    with pytest.raises(InvalidAgent) as caught:
        _parse(text)
    assert caught.value.data == {"path": str(PATH)}
    return caught.value.message


@pytest.mark.skipif(Path("/").drive != "", reason="an absolute path has a drive on Windows")
@pytest.mark.parametrize(
    "data",
    [
        WHOLE.encode(),
        WHOLE.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + WHOLE.encode(),
        WHOLE.rstrip("\n").encode(),
        WHOLE.replace("---\n", "---  \n").encode(),
    ],
)
def test_a_whole_file_is_read_whatever_its_line_ends_and_mark(data: bytes) -> None:
    assert _parse(data) == WHOLE_DEFINITION


def test_a_file_without_front_matter_is_all_instructions_with_careful_defaults() -> None:
    assert _parse("You help.\n") == AgentDefinition(
        name="mail",
        instructions="You help.",
        permissions="read_only",
        sandbox="virtual",
        source=str(PATH),
    )


@pytest.mark.parametrize(
    ("text", "instructions"),
    [
        ("", ""),
        ("---\n---\n", ""),
        ("---\n---", ""),
        ("---\n# only a comment\n---\n\n a \n\n", "\n a \n"),
        ("a\r\nb\r\n", "a\r\nb"),
        ("a\n---\nb", "a\n---\nb"),
        ("--- title\nb", "--- title\nb"),
        ("---\ndescription: x\n---\na\n---\nb\u2028", "a\n---\nb\u2028"),
        ("a\r", "a\r"),
    ],
)
def test_instructions_are_kept_byte_for_byte_but_for_one_line_end(
    text: str, instructions: str
) -> None:
    assert _parse(text).instructions == instructions


@deterministic
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")))
def test_any_body_survives_below_a_front_matter(body: str) -> None:
    assert _parse(f"---\nmax_turns: 3\n---\n{body}|\n").instructions == f"{body}|"


def test_hosts_are_kept_in_the_form_in_which_they_are_compared() -> None:
    definition = _parse("---\nfetch_allow: [Docs.Python.ORG., bücher.example]\n---\n")
    assert definition.fetch_allow == ("docs.python.org", "xn--bcher-kva.example")
    assert _parse("---\nfetch_allow: []\n---\n").fetch_allow == ()


def test_a_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    definition = _parse("---\ncwd: ~/mail\n---\n")
    assert (definition.cwd, definition.sandbox) == (tmp_path / "mail", "local")


@pytest.mark.parametrize(
    ("front_matter", "message"),
    [
        ("descripton: x", "line 2: there is no key 'descripton'. Did you mean description? The"),
        ("a: 1\n", "The keys are: description, model, base_url, api_key_env, permissions, "),
        ("description: x\ndescription: y", "line 3: 'description' stands here a second time"),
        ("fetch_allow: a.example", "line 2: fetch_allow must be a list such as [docs.python.org]"),
        ("fetch_allow: [5]", "line 2: fetch_allow must be text, not 5; put it in quotes"),
        ("fetch_allow: [com]", "line 2: fetch_allow holds 'com', which is no host of the internet"),
        ("fetch_allow: ['']", "line 2: fetch_allow holds '', which is no name of a host; write a"),
        (
            "fetch_allow: ['https://a.example']",
            "fetch_allow holds 'https://a.example', which is no",
        ),
        (
            "fetch_allow: ['a.example:80']",
            "holds 'a.example:80', which is no name of a host; write",
        ),
        (
            "fetch_allow: [a.example/docs]",
            "write a host alone, such as docs.python.org: its subdom",
        ),
        ("fetch_allow: ['*.a.example']", "and there is no scheme, port, path or *"),
        (
            "fetch_allow: [8.8.8.8]",
            "line 2: fetch_allow holds '8.8.8.8', which is an address; write",
        ),
        ("fetch_allow: ['2606::1']", "line 2: fetch_allow holds '2606::1', which is an address"),
        ("fetch_allow: [0x7f.1]", "line 2: fetch_allow holds '0x7f.1', which is no name of a host"),
        ("fetch_allow: [a.example, A.example.]", "line 2: fetch_allow names a.example twice"),
        ("description: 2024-01-01", "line 2: description must be text, not 2024-01-01; put it in"),
        ("description:", "line 2: description must be text, not nothing"),
        ('description: "\\ud800"', "description must not hold half of a surrogate pair"),
        ("model: 5", "line 2: model must be text, not 5; put it in quotes"),
        ('model: ""', "line 2: model must be text on one line, not ''"),
        ("base_url: example.org", "base_url must be an http:// or https:// address, not 'exa"),
        ("base_url: 'http://[x'", "base_url must be an http:// or https:// address"),
        ("base_url: http://h:99999", "base_url must be an http:// or https:// address"),
        ("base_url: http://", "base_url must be an http:// or https:// address"),
        ("permissions: readonly", "must be one of read_only, ask, auto, not 'readonly'. Did you m"),
        ("permissions: yes", "permissions must be one of read_only, ask, auto, not true"),
        ("permissions: [ask]", "permissions must be one of read_only, ask, auto, not a list"),
        ("sandbox: docker", "sandbox must be one of virtual, local, not 'docker'"),
        ("cwd: mail", "cwd must be an absolute path or begin with ~/, not 'mail'"),
        ("cwd: ~nobody-is-called-so/x", "cwd names a home folder that nobody has"),
        ("sandbox: virtual\ncwd: ~/x", "line 3: cwd means nothing in a virtual sandbox"),
        ("tools: read", "tools must be a list such as [read], not 'read'"),
        ("tools: [reed]", "tools names 'reed', which is not there. Did you mean read, remove?"),
        ("tools: [read, read]", "tools names read twice"),
        ("tools: [[read]]", "tools names a list, which is not there"),
        ("max_turns: 0", "max_turns must be a whole number from 1 to 10000, not 0"),
        ("max_turns: true", "max_turns must be a whole number from 1 to 10000, not true"),
        ("max_turns: 2.0", "max_turns must be a whole number from 1 to 10000, not 2.0"),
        ("max_turns: '9'", "max_turns must be a whole number from 1 to 10000, not '9'"),
        ("a: [1", "this is no YAML: "),
        ("\nmodel: 'x", "this is no YAML: found unexpected end of stream"),
        ("description: a: b", "line 2: this is no YAML: mapping values are not allowed here"),
        ("description: \x07", "this is no YAML: unacceptable character"),
        ("model: !!python/object:os.system x", "line 2: this is no YAML: could not determine a co"),
        ("description: 2024-99-99", "line 2: 'description' has a value that is no YAML: month mu"),
        ("max_turns: " + "9" * 5000, "has a value that is no YAML"),
        ("- a", "line 2: the front matter must be lines of `key: value`"),
        ("just words", "the front matter must be lines of `key: value`"),
        ("? [a]\n: b", "line 2: a key must be a word"),
        ("description: &x a\nmodel: *x", "line 3: the alias *x is not supported"),
        ("<<: {model: x}", "there is no key '<<'"),
    ],
)
def test_what_is_wrong_names_file_line_key_and_what_is_valid(
    front_matter: str, message: str
) -> None:
    problem = _problem(f"---\n{front_matter}\n---\nbody")
    assert problem.startswith("mail.md")
    assert message in problem


def test_a_key_in_the_wrong_place_is_never_repeated() -> None:
    assert "sk-secret" not in _problem("---\napi_key_env: sk-secret-1\n---\n")
    assert "hunter2" not in _problem("---\nbase_url: https://me:hunter2@example.org\n---\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"---\ndescription: x\n", "mail.md, line 1: the front matter that begins here has no cl"),
        (b"a\nb\xff\n", "mail.md, line 2: the file is not UTF-8"),
        (b"\xff\xfe-\0", "mail.md, line 1: the file is not UTF-8"),
        (b"a\n\nb\0", "mail.md, line 3: the file holds a NUL"),
        (b"x" * (256 * 1024 + 1), "mail.md: the file is larger than 256 KiB"),
        (b"---\n" + b"#" * 40_000 + b"\n---\n", "line 1: the front matter has more than 32768"),
    ],
)
def test_a_file_that_is_no_text_or_has_no_end_says_where(data: bytes, message: str) -> None:
    assert message in _problem(data)


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "\n".join(
            f"{b}: &{b} [{','.join(['*' + a] * 9)}]"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "a: &a [*a]",
        "a: " + "[" * 30_000,
        "a: " + "[" * 15_000 + "]" * 15_000,
        "a: " + "{a: " * 7_000,
        "- " * 15_000,
        "a: [" + "x," * 15_000 + "]",
    ],
)
def test_a_bomb_is_refused_before_it_goes_off(bomb: str) -> None:
    began = time.monotonic()
    assert _problem(f"---\n{bomb}\n---\n")
    # Seconds on the slowest machine; built out, the aliases alone would take hours.
    assert time.monotonic() - began < 20


@deterministic
@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_the_reader_crash(junk: bytes) -> None:
    for data in (junk, b"---\n" + junk + b"\n---\nbody"):
        try:
            _parse(data)
        except InvalidAgent as error:
            assert error.message.startswith("mail.md")


_VALUES = st.recursive(
    st.sampled_from(
        ["x", "1", "~", "!!int x", "'q'", "2024-13-01", "1:99", "0x", "!!binary *", "|"]
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=5,
)


@deterministic
@given(
    st.lists(
        st.tuples(st.sampled_from(["model", "cwd", "tools", "max_turns", "base_url"]), _VALUES),
        max_size=3,
    )
)
def test_no_values_make_the_reader_crash(pairs: list[tuple[str, str]]) -> None:
    try:
        _parse("---\n" + "".join(f"{key}: {value}\n" for key, value in pairs) + "---\n")
    except InvalidAgent as error:
        assert error.message.startswith("mail.md")
