"""An exact count of tokens, where `tiktoken` and a vocabulary are at hand, and never a download.

`tiktoken` is no dependency, so a module stands in for it that has the few functions in use.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from treadle.models import counting
from treadle.models.counting import exact_counter

VOCABULARY = b"the words of o200k_base"
FILE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"  # as tiktoken 0.12 calls it in its cache


class Encoding:
    """Takes each word for a token."""

    def encode_ordinary(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]


class Tiktoken(ModuleType):
    """The parts of `tiktoken` in use, and which vocabularies were asked for."""

    def __init__(self) -> None:
        super().__init__("tiktoken")
        self.asked: list[str] = []
        self.load = ModuleType("tiktoken.load")

    def encoding_name_for_model(self, model: str) -> str:
        return {"gpt-4o": "o200k_base", "gpt-oss-20b": "o200k_harmony", "gpt2": "gpt2"}[model]

    def get_encoding(self, name: str) -> Encoding:
        self.asked.append(name)
        return Encoding()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    digest = hashlib.sha256(VOCABULARY).hexdigest()
    known = dict.fromkeys(("cl100k_base", "o200k_base", "o200k_harmony"), digest)
    monkeypatch.setattr(counting, "VOCABULARIES", known)
    return tmp_path


@pytest.fixture
def tiktoken(monkeypatch: pytest.MonkeyPatch) -> Tiktoken:
    module = Tiktoken()
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    monkeypatch.setitem(sys.modules, "tiktoken.load", module.load)
    return module


def test_without_tiktoken_there_is_no_exact_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert exact_counter("gpt-4o") is None


@pytest.mark.parametrize("model", ["gpt-4o", "openai/gpt-4o", " gpt-oss-20b"])
def test_with_a_vocabulary_at_hand_tokens_are_counted(
    model: str, cache: Path, tiktoken: Tiktoken
) -> None:
    (cache / FILE_NAME).write_bytes(VOCABULARY)
    count = exact_counter(model)
    assert count is not None
    assert (count(""), count("three words here"), count("<|endoftext|>")) == (0, 3, 1)


def test_a_vocabulary_that_would_be_downloaded_is_not_asked_for(
    cache: Path, tiktoken: Tiktoken
) -> None:
    assert exact_counter("gpt-4o") is None
    (cache / FILE_NAME).mkdir()
    assert exact_counter("gpt-4o") is None
    assert tiktoken.asked == []


def test_a_vocabulary_that_was_changed_is_not_asked_for(cache: Path, tiktoken: Tiktoken) -> None:
    (cache / FILE_NAME).write_bytes(VOCABULARY[:-1])
    assert exact_counter("gpt-4o") is None
    assert tiktoken.asked == []
    assert (cache / FILE_NAME).read_bytes() == VOCABULARY[:-1]


def test_where_caching_is_turned_off_nothing_is_asked_for(
    cache: Path, tiktoken: Tiktoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / FILE_NAME).write_bytes(VOCABULARY)
    monkeypatch.chdir(cache)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert exact_counter("gpt-4o") is None
    assert tiktoken.asked == []


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gpt2", "", "/"])
def test_a_model_with_another_vocabulary_has_no_exact_count(
    model: str, cache: Path, tiktoken: Tiktoken
) -> None:
    (cache / FILE_NAME).write_bytes(VOCABULARY)
    assert exact_counter(model) is None


@pytest.mark.parametrize("has_own_folder", [True, False])
def test_the_vocabulary_is_looked_for_where_tiktoken_looks(
    has_own_folder: bool, cache: Path, tiktoken: Tiktoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(cache))
    folder = cache / ("own" if has_own_folder else "data-gym-cache")
    if has_own_folder:
        own: Any = tiktoken.load
        own._default_cache_dir = lambda: str(folder)
    assert exact_counter("gpt-4o") is None
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(VOCABULARY)
    assert exact_counter("gpt-4o") is not None


def test_a_tiktoken_that_is_broken_is_as_good_as_none(
    cache: Path, tiktoken: Tiktoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / FILE_NAME).write_bytes(VOCABULARY)

    def broken(name: str) -> Encoding:
        raise ValueError(f"the extension for {name} is broken")

    monkeypatch.setattr(tiktoken, "get_encoding", broken)
    assert exact_counter("gpt-4o") is None
