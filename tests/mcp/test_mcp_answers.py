"""What a model gets of a server's answer: nothing is dropped in silence, nothing is unbounded."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from treadle import secrets
from treadle.mcp import results
from treadle.mcp.remote import RemoteResult
from treadle.mcp.results import answer_of, contents_of, is_large
from treadle.thread.attachments import Attachment, attachment
from treadle.tools.tool import Answer, ToolError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)
JPEG = b"\xff\xd8\xff" + bytes(60)
WAV = b"RIFF\x04\0\0\0WAVE"
PDF = b"%PDF-1.7"


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(data: bytes = PNG, mime_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": coded(data), "mimeType": mime_type}


def resource(uri: str = "file:///a", **members: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, **members}}


def answer(*blocks: dict[str, Any], structured: Any = None) -> Answer:
    return answer_of(RemoteResult(blocks, structured))


def test_texts_stand_below_each_other() -> None:
    assert answer(text("one"), text("two")) == Answer("one\ntwo")


@pytest.mark.parametrize(
    ("block", "words", "brought"),
    [
        (image(), "[attached: image, image/png, 68 bytes]", ("image", PNG, "image/png", "")),
        (
            # The bytes know better than who sends them.
            image(JPEG),
            "[attached: image, image/jpeg, 63 bytes]",
            ("image", JPEG, "image/jpeg", ""),
        ),
        (
            {"type": "audio", "data": coded(WAV), "mimeType": "audio/x-wav"},
            "[attached: audio, audio/wav, 12 bytes]",
            ("audio", WAV, "audio/wav", ""),
        ),
        (
            resource("file:///a.pdf", blob=coded(PDF)),
            "[attached: resource file:///a.pdf, application/pdf, 8 bytes]",
            ("resource", PDF, "application/pdf", "file:///a.pdf"),
        ),
    ],
)
def test_bytes_come_along_and_the_text_says_where(
    block: dict[str, Any], words: str, brought: tuple[Any, bytes, str, str]
) -> None:
    kind, data, mime_type, uri = brought
    got = answer(text("before"), block, text("after"))
    assert got == Answer(f"before\n{words}\nafter", (attachment(kind, data, mime_type, uri=uri),))
    assert isinstance(got.blocks[0], Attachment)
    assert got.blocks[0].data == data


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (
            image(b"<svg/>", "image/svg+xml"),
            "[image, image/svg+xml, 6 bytes, not kept: it can be shown to nobody here]",
        ),
        (
            image(b"no image", "image/png"),
            "[image, image/png, 8 bytes, not kept: it can be shown to nobody here]",
        ),
        (
            resource("file:///a.zip", blob=coded(b"PK\3\4"), mimeType="application/zip"),
            "[resource file:///a.zip, application/zip, 4 bytes, not kept: "
            "it can be shown to nobody here]",
        ),
        (
            {"type": "image", "data": "%%%", "mimeType": "image/png"},
            "[image, image/png, whose bytes are no base64]",
        ),
        (
            {"type": "image", "data": "é" * 8, "mimeType": "image/png"},
            "[image, image/png, whose bytes are no base64]",
        ),
        ({"type": "image", "data": 5}, "[image, without any bytes]"),
        (resource("file:///a"), "[resource file:///a, without any bytes]"),
        ({"type": "resource"}, "[a resource that is none]"),
        ({"type": "hologram"}, "[a block of the type 'hologram', which is not known here]"),
        ({}, "[a block of the type 'None', which is not known here]"),
        (resource("file:///a\nb", text="B"), "Contents of file:///a b:\nB"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "A", "description": "It is\nA."},
            "See file:///a (A): It is A.",
        ),
        ({"type": "resource_link", "uri": "file:///a"}, "See file:///a"),
    ],
)
def test_what_cannot_be_shown_is_named_at_its_place(block: dict[str, Any], words: str) -> None:
    assert answer(text("before"), block, text("after")) == Answer(f"before\n{words}\nafter")


@pytest.mark.parametrize(
    ("blocks", "structured", "said"),
    [
        ((), {"a": 1}, '{"a":1}'),
        ((text('{ "a": 1 }'),), {"a": 1}, '{ "a": 1 }'),
        ((text("done"),), {"a": 1}, 'done\n{"a":1}'),
        ((text("5"),), {"result": 5}, "5"),
        ((text("hi"),), {"result": "hi"}, "hi"),
        ((text("a"), text("b")), {"result": ["a", "b"]}, "a\nb"),
        ((text("1"), text("2")), [1, 2], "1\n2"),
        ((), {"big": 2**70, "odd": "\ud800"}, '{"big":"1180591620717411303424","odd":"\ufffd"}'),
    ],
)
def test_structured_content_is_told_where_no_text_says_it(
    blocks: tuple[dict[str, Any], ...], structured: Any, said: str
) -> None:
    assert answer(*blocks, structured=structured) == Answer(said)


def test_a_failure_is_told_in_the_servers_words_and_brings_no_bytes() -> None:
    with pytest.raises(ToolError) as told:
        answer_of(RemoteResult((text("no such page"), image()), is_error=True))
    assert str(told.value) == (
        "no such page\n[image, image/png, about 69 bytes, not kept, for the call failed]"
    )
    with pytest.raises(ToolError) as told:
        answer_of(RemoteResult(is_error=True))
    assert str(told.value) == "The server says that it failed, and not why."


def test_one_answer_brings_so_many_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_ATTACHED_BYTES", 2 * len(PNG))
    got = answer(image(), image(PNG * 2), image(), image())
    assert [block.data for block in got.blocks if isinstance(block, Attachment)] == [PNG, PNG]
    kept = "[attached: image, image/png, 68 bytes]"
    left = "[image, image/png, about {} bytes, not kept: one answer may bring 0 MiB]"
    assert got.text.splitlines() == [kept, left.format(138), kept, left.format(69)]


def test_one_answer_brings_so_many_things_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_ATTACHED", 1)
    got = answer(image(), image())
    assert len(got.blocks) == 1
    assert got.text.endswith("\n[image, image/png, not kept: one answer may bring 1 of them]")


def test_a_text_is_cut_where_nobody_keeps_more_and_no_secret_is_cut_in_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "_values", (("OF_THE_TEST", "open-sesame-of-answers"),))
    monkeypatch.setattr(results, "MAX_TEXT_CHARACTERS", 20)
    got = answer(text("1234567"), text("89 open-sesame-of-answers"), text("more"))
    assert got.text == "1234567\n89 [secret OF\n[… 14 more characters, which were not kept]"


def test_a_large_answer_is_known_before_it_is_read() -> None:
    little = RemoteResult((text("a"), image(), resource(text="b")))
    assert not is_large(little)
    for block in (text("a" * 70_000), image(bytes(60_000)), resource(blob="a" * 70_000)):
        assert is_large(RemoteResult((block,)))


def test_a_resources_contents_are_an_answer() -> None:
    contents = (
        {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "A"},
        {"uri": "file:///b.png", "mimeType": "image/png", "blob": coded(PNG)},
    )
    assert contents_of(contents) == Answer(
        "Contents of file:///a.txt:\nA\n[attached: resource file:///b.png, image/png, 68 bytes]",
        (attachment("resource", PNG, "image/png", uri="file:///b.png"),),
    )
