"""What `fetch` never reaches, whatever a model, a page or a name server says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import PATIENCE_SECONDS
from support.web import PUBLIC, StandInWeb, WebServer, fetch, page, redirect
from treadle.permissions.policy import Policy
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.builtin import BUILTIN
from treadle.tools.pipeline import run_call
from treadle.tools.tool import ToolContext
from treadle.tools.web import request
from treadle.tools.web.addresses import Address, is_public

PRIVATE_ADDRESSES = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1"),
    *("100.100.100.200", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255"),
    *("192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fe80::1", "fe80::1%eth0"),
    *("fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "3fff::1", "100::1"),
    # Addresses that hold an IPv4 address: 6to4, Teredo, NAT64.
    *("2002:7f00:1::1", "2002:808:808::1", "2001:0:808:808::1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "4000::1", "docs.example", ""),
]
PUBLIC_ADDRESSES = [
    *(PUBLIC, "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1"),
    *("192.0.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"),
]

# Whatever a name can be named by, an agent's file may hold it.
EVERYTHING = ("docs.example", "localhost", "127.0.0.1", "169.254.169.254", "::1", "evil.example")

REFUSED_URLS = [
    ("file:///etc/passwd", "is no http:// or https:// URL"),
    ("ftp://docs.example/", "is no http:// or https:// URL"),
    ("gopher://docs.example/_x", "is no http:// or https:// URL"),
    ("data:text/html,x", "is no http:// or https:// URL"),
    ("docs.example/page", "is no http:// or https:// URL"),
    ("//docs.example/page", "is no http:// or https:// URL"),
    ("", "is no http:// or https:// URL"),
    ("http://", "names no host"),
    ("http:///docs.example", "names no host"),
    ("http:docs.example", "names no host"),
    ("http://docs.example/\r\nHost: evil.example", "holds a control character"),
    ("http://docs.example/\n", "holds a control character"),
    ("http://docs.exa\tmple/", "holds a control character"),
    ("http://docs.example/\0", "holds a control character"),
    ("http://docs.example\u2028/", "holds a control character"),
    ("http://user@docs.example/", "user name or password"),
    ("http://user:word@docs.example/", "user name or password"),
    ("http://docs.example@evil.org/", "user name or password"),
    ("http://docs.example\\@evil.org/", "user name or password"),
    ("http://docs.example:0/", "names port 0"),
    ("http://docs.example:99999/", "is no URL"),
    ("http://docs.example:x/", "is no URL"),
    ("http://[::1/", "is no URL"),
    ("http://[fe80::1%25eth0]/", "is an address of one network only"),
    ("http://docs.example.evil.org/", "is none of the hosts that this agent may fetch from"),
    ("http://evildocs.example/", "is none of the hosts that this agent may fetch from"),
    ("http://example/", "is none of the hosts that this agent may fetch from"),
    ("http://evil.org/?docs.example", "is none of the hosts that this agent may fetch from"),
    ("http://evil.org#.docs.example/", "is none of the hosts that this agent may fetch from"),
    ("http://evil.org\\.docs.example/", "is no name of a host"),
    ("http://evil.org%2f.docs.example/", "is no name of a host"),
    ("http://docs.example../", "is no name of a host"),
    ("http://.docs.example/", "is no name of a host"),
    ("http://docs example/", "is no name of a host"),
    ("http://docs\u200b.example/", "holds a control character"),
    ("http://docs\ufffd.example/", "is no name of a host"),
    ("http://2130706433/", "not written as four decimal numbers"),
    ("http://0x7f000001/", "not written as four decimal numbers"),
    ("http://0x7f.1/", "not written as four decimal numbers"),
    ("http://0x7f.0x0.0x0.0x1/", "not written as four decimal numbers"),
    ("http://0177.0.0.1/", "not written as four decimal numbers"),
    ("http://017700000001/", "not written as four decimal numbers"),
    ("http://127.1/", "not written as four decimal numbers"),
    ("http://127.0.1/", "not written as four decimal numbers"),
    ("http://0/", "not written as four decimal numbers"),
    ("http://127.0.0.1.0x/", "not written as four decimal numbers"),
    ("http://127.0.0.1/", "never fetched"),
    ("http://127.0.0.1./", "never fetched"),
    ("http://127.0.0.1:8080/", "never fetched"),
    ("https://127.0.0.1/", "never fetched"),
    ("http://\uff11\uff12\uff17.0.0.1/", "never fetched"),
    ("http://127\u30020\u30020\u30021/", "never fetched"),
    ("http://169.254.169.254/latest/meta-data/", "never fetched"),
    ("http://[::1]/", "never fetched"),
    ("http://[0:0:0:0:0:0:0:1]/", "never fetched"),
    ("http://[::ffff:127.0.0.1]/", "is none of the hosts"),
    ("http://localhost/", "never fetched"),
    ("http://LOCALHOST./", "never fetched"),
    ("http://a.localhost/", "never fetched"),
    ("http://docs.example/" + "a" * 9000, "longer than 8000 characters"),
]


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_an_address_that_is_not_of_the_internet_is_none(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_an_address_of_the_internet_is_one(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses())
def test_what_python_takes_for_private_is_never_public(address: Address) -> None:
    assert not is_public(str(address)) or (address.is_global and not address.is_multicast)


@given(st.ip_addresses(v=4))
def test_no_form_of_ipv6_makes_a_private_ipv4_address_public(address: IPv4Address) -> None:
    held = int(address)
    for prefix in ("::", "::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "::ffff:0:0:0"):
        assert is_public(str(IPv6Address(prefix) + held)) <= is_public(str(address))
    for shifted in (IPv6Address("2002::") + (held << 80), IPv6Address("2001::") + (held << 64)):
        assert not is_public(str(shifted))


@pytest.mark.parametrize(("url", "words"), REFUSED_URLS)
async def test_what_must_not_be_asked_for_is_refused_and_nobody_is_called(
    url: str, words: str
) -> None:
    names = {"localhost": ["127.0.0.1"], "a.localhost": ["::1"]}
    async with WebServer() as server:
        network = StandInWeb(server, names)
        outcome = await fetch(network, url, EVERYTHING)
        assert not outcome.ok
        assert words in outcome.content
        assert (network.connected, server.connections) == ([], 0)


async def test_a_host_that_is_not_named_is_not_even_looked_up() -> None:
    async with WebServer() as server:
        network = StandInWeb(server)
        outcome = await fetch(network, "https://evil.org/", ["docs.example", "a.example"])
    assert outcome.content == (
        "evil.org is none of the hosts that this agent may fetch from: docs.example, a.example. "
        "Go on without it."
    )
    assert (network.resolved, network.connected) == ([], [])


async def test_an_agent_that_names_no_host_may_not_fetch_in_any_mode() -> None:
    for mode in ("read_only", "ask", "auto"):
        context = ToolContext(VirtualSandbox(), policy=Policy(mode))
        call = ToolCall("1", "fetch", {"url": "http://docs.example/"})
        outcome = await run_call(call, BUILTIN, context)
        assert outcome.content == (
            f"fetch is not allowed: this agent's permissions are {mode}. Go on without it."
        )


@pytest.mark.parametrize("mode", ["ask", "auto"])
async def test_no_mode_reaches_further_than_the_hosts_that_are_named(mode: str) -> None:
    policy = Policy("auto" if mode == "auto" else "ask", ("docs.example",))
    context = ToolContext(VirtualSandbox(), policy=policy)
    call = ToolCall("1", "fetch", {"url": "http://127.0.0.1/"})
    outcome = await run_call(call, BUILTIN, context)
    assert "127.0.0.1 is none of the hosts" in outcome.content


@pytest.mark.parametrize("address", [one for one in PRIVATE_ADDRESSES if one != "docs.example"])
@pytest.mark.parametrize("beside", [[], [PUBLIC]])
async def test_a_name_with_any_private_address_is_refused(address: str, beside: list[str]) -> None:
    async with WebServer() as server:
        network = StandInWeb(server, {"docs.example": [*beside, address]})
        outcome = await fetch(network, "http://docs.example/")
        assert outcome.content == (
            "docs.example stands for an address of a private network or of this machine, which is "
            "never fetched. Go on without it."
        )
        assert (network.connected, server.connections) == ([], 0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (OSError(-2, "Name or service not known"), "cannot be found: Name or service not known."),
        (UnicodeError("label too long"), "cannot be found: label too long."),
        (TimeoutError(), "cannot be found: it did not answer in time."),
        ([], "cannot be found: it has no address."),
        (["no address"], "which is never fetched"),
    ],
)
async def test_a_name_that_is_not_resolved_is_not_fetched(
    found: Exception | Sequence[str], words: str
) -> None:
    async with WebServer() as server:
        network = StandInWeb(server, {"docs.example": found})
        outcome = await fetch(network, "http://docs.example/")
    assert (outcome.ok, network.connected) == (False, [])
    assert words in outcome.content


async def test_a_name_that_changes_its_address_is_asked_once_and_reached_where_it_was() -> None:
    async with (
        WebServer({"/": page("public")}) as server,
        WebServer({"/": page("private")}) as private,
    ):
        names = {"docs.example": [[PUBLIC], ["127.0.0.1"]]}
        network = StandInWeb(server, names, private)
        outcome = await fetch(network, "http://docs.example/")
        assert outcome.content.endswith("\n\npublic")
        assert (network.resolved, network.connected) == (["docs.example"], [(PUBLIC, 80)])
        assert private.connections == 0


async def test_a_name_that_turns_private_at_a_redirect_is_refused() -> None:
    async with WebServer({"/": redirect("/two")}) as server, WebServer() as private:
        names = {"docs.example": [[PUBLIC], ["127.0.0.1"]]}
        network = StandInWeb(server, names, private)
        outcome = await fetch(network, "http://docs.example/")
        assert "which is never fetched" in outcome.content
        assert (server.targets, private.connections) == (["/"], 0)


@pytest.mark.parametrize(
    "location",
    [
        # Without those that no header can hold, and those that lead back to the same host.
        *(
            url
            for url, _ in REFUSED_URLS
            if url.startswith("http://")
            and url.isascii()
            and url not in ("http://", "http:///docs.example")
            and not {"\n", "\0"} & {*url}
        ),
        *("file:///etc/passwd", "ftp://docs.example/", "gopher://docs.example/_x", "data:,x"),
        *("//127.0.0.1/", "//evil.org/", "http://[x", "javascript:alert(1)"),
        *("https://127.0.0.1/", "/a\tb", "//2130706433"),
    ],
)
async def test_a_redirect_to_what_must_not_be_asked_for_is_refused(location: str) -> None:
    names = {"docs.example": [PUBLIC], "localhost": ["127.0.0.1"], "a.localhost": ["::1"]}
    async with WebServer({"/": redirect(location)}) as server, WebServer() as private:
        network = StandInWeb(server, names, private)
        outcome = await fetch(network, "http://docs.example/", EVERYTHING)
        assert (outcome.ok, server.targets, private.connections) == (False, ["/"], 0)
        assert network.connected == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http:///docs", "/docs"),
        ("http:docs", "/docs"),
        ("docs.example/page", "/docs.example/page"),
        ("\\\\evil.org\\", "/%5C%5Cevil.org%5C"),
        ("http:\\\\127.0.0.1/", "/%5C%5C127.0.0.1/"),
        ("/@evil.org", "/@evil.org"),
        ("///@evil.org", "/@evil.org"),
    ],
)
async def test_a_redirect_that_only_looks_like_another_host_stays_on_its_own(
    location: str, target: str
) -> None:
    async with WebServer({"/": redirect(location), target: page("here")}) as server:
        network = StandInWeb(server)
        outcome = await fetch(network, "http://docs.example/", EVERYTHING)
        assert outcome.content.endswith("\n\nhere")
        assert server.targets == ["/", target]
        assert network.resolved == ["docs.example"] * 2


async def test_a_redirect_says_where_it_would_have_led() -> None:
    async with WebServer({"/": redirect("https://evil.org/x")}) as server:
        outcome = await fetch(StandInWeb(server), "http://docs.example/")
    assert outcome.content == (
        "http://docs.example/ redirects to https://evil.org/x. evil.org is none of the hosts that "
        "this agent may fetch from: docs.example. Go on without it."
    )


async def test_redirects_that_never_end_are_left_after_five() -> None:
    async with WebServer({"*": redirect("/again")}) as server:
        outcome = await fetch(StandInWeb(server), "http://docs.example/")
        assert outcome.content == (
            "There were more than 5 redirects, the last to http://docs.example/again. "
            "Fetch another page."
        )
        assert server.targets == ["/", *["/again"] * 5]


async def test_proxies_cookies_and_credentials_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine docs.example login a password b\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    there = page(status="302 Found", Location="/b", Set_Cookie="a=1; Path=/")
    async with WebServer({"/a": there, "/b": page("b")}) as server, WebServer() as private:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{private.port}")
        outcome = await fetch(StandInWeb(server), "http://docs.example/a")
        assert outcome.ok
        assert private.connections == 0
        for sent in server.requests:
            names = [line.partition(":")[0].lower() for line in sent.split("\r\n")[1:] if line]
            assert names == ["host", "user-agent", "accept-encoding", "connection", "accept"]


async def test_encrypted_connections_keep_the_name_and_verify_it() -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.read(4096))
        writer.close()

    listener = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with listener, WebServer() as server:
        server.port = listener.sockets[0].getsockname()[1]
        network = StandInWeb(server)
        outcome = await fetch(network, "https://docs.example/")
        async with asyncio.timeout(PATIENCE_SECONDS):
            hello = await heard
    assert b"docs.example" in hello
    assert PUBLIC.encode() not in hello
    assert network.connected == [(PUBLIC, 443)]
    assert outcome.content.startswith("There is no connection to docs.example: ")
    context = request._tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
