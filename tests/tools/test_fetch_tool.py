"""The tool `fetch`, as a model meets it: pages, texts, errors, and bodies of every kind."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from support.waiting import PATIENCE_SECONDS
from support.web import PUBLIC, StandInWeb, WebServer, Writes, fetch, page, redirect
from treadle import secrets
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.pipeline import ToolOutcome
from treadle.tools.web.network import SystemNetwork
from treadle.version import __version__

HEAD = "http://docs.example/\n200 OK, text/plain"


async def _got(answer: bytes | Writes, **arguments: object) -> ToolOutcome:
    """Fetch a page that is answered so."""
    async with WebServer({"/": answer}) as server:
        return await fetch(StandInWeb(server), "http://docs.example/", **arguments)  # type: ignore[arg-type] # whatever a test says


async def _text(answer: bytes) -> str:
    """Return what is shown below the heading."""
    outcome = await _got(answer)
    assert outcome.ok, outcome.content
    return outcome.content.partition("\n\n")[2]


async def test_a_text_is_shown_as_it_is_below_where_it_is_from_and_what_it_is() -> None:
    outcome = await _got(page("one\n  two\n"))
    assert outcome == ToolOutcome(f"{HEAD}\n\none\n  two\n", ok=True, truncated=False)
    outcome = await _got(page('{"a": [1]}', "application/json; charset=utf-8"))
    assert outcome.content == 'http://docs.example/\n200 OK, application/json\n\n{"a": [1]}'


async def test_a_page_is_shown_as_markdown_without_what_no_reader_sees() -> None:
    html = """<!doctype html><html><head><title>The  page</title><base href="/docs/">
<style>p {color: red}</style><script>steal()</script></head><body>
<h1>Heading</h1><p hidden>hidden one</p><p style="color: red; DISPLAY : none">hidden two</p>
<div aria-hidden="true">hidden three</div><!-- hidden four --><template>hidden five</template>
<noscript>hidden six</noscript><textarea>hidden seven</textarea><svg><text>hidden 8</text></svg>
<p>See <a href="a.html?x=1&amp;y=2">the <b>link</b></a>, <a href="https://o.example/">other</a>,
<a href="javascript:steal()">script</a> and <img src="data:image/png;base64,AAAA" alt="a cat">.</p>
<pre>def f():
    return 1</pre><ul><li>one<li>two</ul></body></html>"""
    assert await _text(page(html, "text/html")) == (
        "The page\n\n# Heading\n\nSee [the **link**](http://docs.example/docs/a.html?x=1&y=2), "
        '[other](https://o.example/), [script] and <img alt="a cat">.\n\n'
        "```\ndef f():\n    return 1\n```\n\n- one\n- two"
    )


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 9_000,
        "<b><p>" * 5_000,
        "<table><tr><td>" * 2_000,
        "<ul><li>" * 4_000,
        "<!--" * 9_000,
        "<a " + "x=1 " * 9_000 + ">",
        "&" * 90_000,
        '<a href="http://[x">z</a><base href="http://[bad">',
        "<base href=x>" * 2_000 + "<a href=y>",
    ],
)
async def test_a_hostile_page_is_a_result_like_any_other(html: str) -> None:
    outcome = await _got(page(html, "text/html"))
    assert outcome.ok
    assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES


async def test_redirects_are_followed_and_the_last_url_is_named() -> None:
    names = {"docs.example": [PUBLIC], "www.docs.example": ["2606:4700::1111"]}
    answers = {
        "/": redirect("b?x=1#part", "301 Moved Permanently"),
        "/b?x=1": redirect("http://www.DOCS.example:8080/ü c", "307 Temporary Redirect"),
        "/%C3%BC%20c": page("there"),
    }
    async with WebServer(answers) as server:
        network = StandInWeb(server, names)
        outcome = await fetch(network, "http://docs.example")
        assert outcome.content == (
            "http://www.docs.example:8080/%C3%BC%20c\n200 OK, text/plain\n\nthere"
        )
        assert network.connected == [(PUBLIC, 80), (PUBLIC, 80), ("2606:4700::1111", 8080)]
        assert "Host: www.docs.example:8080\r\n" in server.requests[-1]
        assert f"User-Agent: treadle/{__version__}\r\n" in server.requests[0]


async def test_a_name_in_another_alphabet_is_the_same_host_in_every_spelling() -> None:
    names = {"xn--bcher-kva.example": [PUBLIC]}
    for url in ("http://Bücher.example/", "http://xn--bcher-kva.EXAMPLE./"):
        async with WebServer({"/": page("Bücher")}) as server:
            outcome = await fetch(StandInWeb(server, names), url, ["xn--bcher-kva.example"])
            assert outcome.content.startswith("http://xn--bcher-kva.example/\n")
            assert "Host: xn--bcher-kva.example\r\n" in server.requests[0]


async def test_the_next_address_is_tried_where_the_first_does_not_answer() -> None:
    class Half(StandInWeb):
        async def connect(self, address, port, timeout_seconds):  # type: ignore[no-untyped-def] # as above it
            if address == "1.1.1.1":
                self.connected.append((address, port))
                raise ConnectionRefusedError(111, "Connection refused")
            return await super().connect(address, port, timeout_seconds)

    async with WebServer({"/": page("here")}) as server:
        network = Half(server, {"docs.example": ["1.1.1.1", PUBLIC]})
        assert (await fetch(network, "http://docs.example/")).content.endswith("here")
        assert network.connected == [("1.1.1.1", 80), (PUBLIC, 80)]
        network = Half(server, {"docs.example": ["1.1.1.1"]})
        assert (await fetch(network, "http://docs.example/")).content == (
            "There is no connection to docs.example: Connection refused. Try again later, or go "
            "on without it."
        )


async def test_an_error_of_the_server_is_told_with_the_beginning_of_what_it_says() -> None:
    outcome = await _got(page("<h1>No such page</h1>" + "x" * 9000, "text/html", "404 Not Found"))
    assert not outcome.ok
    assert outcome.content.startswith(
        "http://docs.example/\n404 Not Found, text/html\n\n# No such page\n\nxxx"
    )
    assert len(outcome.content) < 5000
    outcome = await _got(page(status="503 Service Unavailable", kind=""))
    assert outcome.content == "http://docs.example/\n503 Service Unavailable, no type given"
    outcome = await _got(page("x", status="302 Found"))
    assert outcome.content == "http://docs.example/\n302 Found, text/plain\n\nx"
    outcome = await _got(page(status="200 OK"))
    assert outcome == ToolOutcome(f"{HEAD}\n\n(no text)", ok=True, truncated=False)


async def test_parts_of_a_long_text_lead_through_the_whole_of_it() -> None:
    text = "".join(f"{number} ü\n" for number in range(20_000))
    assert len(text.encode()) < 200_000
    seen, offset = "", 0
    async with WebServer({"/": page(text)}) as server:
        network = StandInWeb(server)
        while True:
            outcome = await fetch(network, "http://docs.example/", offset=offset)
            assert (outcome.ok, outcome.truncated) == (True, False)
            assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES
            body, _, hint = outcome.content.removeprefix(f"{HEAD}\n\n").partition("\n\n… ")
            seen, offset = seen + body, offset + len(body)
            if not hint:
                break
            left = len(text) - offset
            assert hint == f"{left} more characters of {len(text)}; use offset={offset}"
        assert seen == text
        outcome = await fetch(network, "http://docs.example/", offset=len(text))
        assert outcome.content == (
            f"The text has only {len(text)} characters; use an offset below that."
        )


async def test_more_than_two_hundred_thousand_bytes_are_not_read_and_that_is_said() -> None:
    outcome = await _got(page("x" * 200_000), offset=199_999)
    assert outcome.content == f"{HEAD}\n\nx"
    outcome = await _got(page("x" * 200_001), offset=199_999)
    assert outcome.content == (
        f"{HEAD}\n\nx\n\n… the rest is not there: only the first 200000 bytes were read"
    )


async def test_a_body_that_never_ends_is_left_and_its_connection_closed() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with WebServer({"/": endless}) as server:
        outcome = await fetch(StandInWeb(server), "http://docs.example/")
        assert outcome.content.startswith(f"{HEAD}\n\nxxx")
        # Its last write has failed.
        await server.until(lambda: server.left == 1)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\nbody"])
async def test_a_server_that_falls_silent_is_left_at_the_bound(said: bytes) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await asyncio.sleep(PATIENCE_SECONDS)

    outcome = await _got(silent, request_seconds=0.3)
    assert outcome.content == (
        "docs.example did not answer in whole within 0.3 s. Try again later, or go on without it."
    )


async def test_a_name_server_that_falls_silent_is_left_at_the_bound() -> None:
    class Silent(StandInWeb):
        async def resolve(self, host: str, port: int) -> list[str]:
            await asyncio.sleep(PATIENCE_SECONDS)
            return [PUBLIC]

    async with WebServer() as server:
        network = Silent(server)
        outcome = await fetch(network, "http://docs.example/", request_seconds=0.05)
    assert "did not answer in whole within 0.05 s" in outcome.content


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "broke off"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "broke off"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000 + b"\r\n\r\n", "broke off"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "broke off"),
    ],
)
async def test_an_answer_that_breaks_off_is_told_and_says_what_to_do(
    answer: bytes, words: str
) -> None:
    outcome = await _got(answer)
    assert not outcome.ok
    assert words in outcome.content


def _zipped(data: bytes) -> bytes:
    """Compress without the time of day, which would be in the test's name."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("identity", b"text " * 100),
        ("gzip", _zipped(b"text " * 100)),
        ("x-gzip", _zipped(b"text " * 60) + _zipped(b"text " * 40)),
        ("GZIP", _zipped(b"text " * 100) + b"behind the end"),
        ("deflate", zlib.compress(b"text " * 100)),
        ("deflate", zlib.compress(b"text " * 100)[2:-4]),
    ],
)
async def test_a_compressed_text_is_read(encoding: str, data: bytes) -> None:
    assert await _text(page(data, Content_Encoding=encoding)) == "text " * 100


@pytest.mark.parametrize(
    ("encoding", "data", "words"),
    [
        ("br", b"x", "The answer is compressed as 'br', not as asked for."),
        ("gzip, gzip", b"x", "The answer is compressed as 'gzip, gzip', not as asked for."),
        ("gzip", b"not compressed at all", "The answer cannot be decompressed: "),
        ("deflate", b"not compressed at all", "The answer cannot be decompressed: "),
        ("gzip", _zipped(b"text " * 100)[:-8] + b"\0" * 8, "cannot be decompressed"),
    ],
)
async def test_what_cannot_be_decompressed_says_so(encoding: str, data: bytes, words: str) -> None:
    outcome = await _got(page(data, Content_Encoding=encoding))
    assert not outcome.ok
    assert words in outcome.content


async def test_a_bomb_grows_to_the_limit_and_no_further() -> None:
    import tracemalloc

    bomb = page(gzip.compress(b"x" * 200_000_000, 9), Content_Encoding="gzip")
    empty = page(gzip.compress(b"") * 100_000, Content_Encoding="gzip")
    await _got(page("x"))
    tracemalloc.start()
    try:
        outcome = await _got(bomb, offset=199_000)
        assert outcome.content.endswith("only the first 200000 bytes were read")
        outcome = await _got(empty)
        assert outcome.content == f"{HEAD}\n\n(no text)"
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("text/plain", "grün €".encode(), "grün €"),
        ("text/plain; charset=utf-8", b"\xef\xbb\xbfgr\xc3\xbcn", "grün"),
        ("text/plain; charset=ISO-8859-1", "grün €".encode("cp1252"), "grün €"),
        ('text/plain; charset="windows-1251"', "зелёный".encode("cp1251"), "зелёный"),
        ("text/plain; charset=shift_jis", "緑".encode("shift_jis"), "緑"),
        ("text/plain; charset=gb2312", "绿䶮".encode("gb18030"), "绿䶮"),
        ("text/plain", b"\xff\xfe" + "grün".encode("utf-16-le"), "grün"),
        ("text/plain; charset=utf-16be", "grün".encode("utf-16-be"), "grün"),
        ("text/plain", "grün €".encode("cp1252"), "grün €"),
        ("text/plain; charset=utf-8", b"gr\xfcn", "gr\ufffdn"),
        ("text/plain; charset=no-such", "grün".encode(), "grün"),
        ("text/plain; charset=unicode_escape", b"\\u0041", "\\u0041"),
        ("text/plain; charset=punycode", b"bcher-kva", "bcher-kva"),
        ("text/plain; charset=hex", b"41", "41"),
        ("text/plain; charset=idna", b"xn--bcher-kva", "xn--bcher-kva"),
        ("text/plain; charset=" + "x" * 500, b"a", "a"),
        ("text/html", b"<meta charset=koi8-r><p>" + "зелёный".encode("koi8-r"), "зелёный"),
        (
            "text/html",
            b'<meta http-equiv=Content-Type content="text/html; charset=windows-1252">gr\xfcn',
            "grün",
        ),
        ("text/html", b"<meta charset=utf-16><p>gr\xc3\xbcn", "grün"),
        ("text/html; charset=utf-8", b"<meta charset=koi8-r>gr\xc3\xbcn", "grün"),
        ("", b"<!-- x --> <!DOCTYPE html><p>found", "found"),
        ("application/octet-stream", b"just text", "just text"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
    ],
)
async def test_a_text_is_read_in_its_charset(kind: str, data: bytes, text: str) -> None:
    assert await _text(page(data, kind)) == text


async def test_a_character_that_the_limit_cuts_does_not_change_the_charset() -> None:
    outcome = await _got(page("x" + "ü" * 100_000), offset=99_990)
    assert outcome.content.partition("\n\n")[2].startswith("üüü")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("image/png", b"\x89PNG"),
        ("application/pdf", b"%PDF-1.7"),
        ("application/zip", b"PK"),
        ("video/mp4", b"0"),
        ("text/plain", b"a\0b"),
        ("application/octet-stream", b"\x7fELF\0"),
    ],
)
async def test_what_is_no_text_is_named_and_not_shown(kind: str, data: bytes) -> None:
    outcome = await _got(page(data, kind))
    assert outcome == ToolOutcome(
        f"http://docs.example/\n200 OK, {kind}\nThis is no text, so it cannot be fetched.",
        ok=False,
        truncated=False,
    )


async def test_a_secret_is_shown_by_its_name_in_the_text_the_url_and_across_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "_names", ("SITE_TOKEN",))
    monkeypatch.setenv("SITE_TOKEN", "token-0123456789")
    text = "x" * (RESULT_LIMIT_BYTES - 400) + " token-0123456789" * 20
    async with WebServer({"*": page(text)}) as server:
        network = StandInWeb(server)
        outcome = await fetch(network, "http://docs.example/?t=token-0123456789")
        assert outcome.content.startswith("http://docs.example/?t=[secret SITE_TOKEN]\n200 OK")
        assert "token-01" not in outcome.content
        offset = int(outcome.content.rpartition("offset=")[2])
        outcome = await fetch(network, "http://docs.example/", offset=offset)
        assert "789" not in outcome.content
        outcome = await fetch(network, "http://evil.org/token-0123456789")
        assert "token-01" not in outcome.content


async def test_a_call_that_is_cancelled_closes_its_connection() -> None:
    reached = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        reached.set()
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with WebServer({"/": silent}) as server:
        call = asyncio.create_task(fetch(StandInWeb(server), "http://docs.example/"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reached.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.until(lambda: server.left == 1)


async def test_the_network_of_this_machine_finds_addresses_and_reaches_them() -> None:
    network = SystemNetwork()
    addresses = await network.resolve("localhost", 80)
    assert set(addresses) <= {"127.0.0.1", "::1"}
    async with WebServer() as server:
        stream = await network.connect("127.0.0.1", server.port, PATIENCE_SECONDS)
        await stream.aclose()
        await server.until(lambda: server.left == 1)
    with pytest.raises(OSError, match=r".+"):
        await network.resolve("no-such-host.invalid", 80)
