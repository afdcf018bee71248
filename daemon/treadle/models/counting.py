"""A model's own way to count tokens, where the tokenizer is at hand.

Owns finding `tiktoken`, which is no dependency, and its vocabulary on this machine. Refuses to
fetch anything, and to know what is counted.

`tiktoken` downloads a vocabulary that it does not find in its cache, or finds there with a wrong
checksum. Here it is only asked for one whose file lies there, whole and unchanged.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

logger = logging.getLogger(__name__)

# The vocabularies of chat models, with the SHA-256 that `tiktoken` itself demands of them
# (tiktoken_ext/openai_public.py, 0.12.0).
VOCABULARIES = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    # The vocabulary of o200k_base, with other special tokens.
    "o200k_harmony": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}

# A file's name in the cache is the SHA-1 of the URL that it came from.
_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


def exact_counter(model: str) -> Callable[[str], int] | None:
    """Return what counts a text's tokens as `model` does; None where that cannot be done here.

    Reads and builds a vocabulary, some 0.3 s of work: call it in a worker thread.

    Args:
        model: its name as the endpoint knows it; an aggregator's prefix is ignored.

    Contract: never raises and never reaches the network, and neither does what it returns.
    """
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
        importlib.import_module("tiktoken.load")
    except Exception:  # not installed, or broken in whichever way native modules break
        return None
    try:
        encoding = _encoding(tiktoken, model.strip().rsplit("/", 1)[-1])
    except Exception:
        logger.info("tiktoken cannot count for %s", model, exc_info=True)
        return None
    if encoding is None:
        return None

    def count(text: str) -> int:
        # What looks like a special token was said by somebody and is text.
        return len(encoding.encode_ordinary(text))

    return count


class _Encoding(Protocol):
    """What is used of a `tiktoken.Encoding`."""

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the tokens of a text in which nothing is special."""


def _encoding(tiktoken: Any, model: str) -> _Encoding | None:
    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        return None
    if name not in VOCABULARIES or not _is_cached(tiktoken, name):
        return None
    encoding: _Encoding = tiktoken.get_encoding(name)
    return encoding


def _is_cached(tiktoken: Any, name: str) -> bool:
    """Whether `tiktoken` finds the vocabulary, unchanged, where it looks for it first."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = _default_folder(tiktoken)
    if not folder:  # its way to say that nothing is to be cached: it would fetch
        return False
    url = _URL.format(name.replace("_harmony", "_base"))
    file_name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    try:
        held = (Path(folder) / file_name).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(held).hexdigest() == VOCABULARIES[name]


def _default_folder(tiktoken: Any) -> str:
    """Return where it looks by itself: newer versions have a function, older ones one folder."""
    own = getattr(tiktoken.load, "_default_cache_dir", None)
    return str(own()) if own else str(Path(tempfile.gettempdir(), "data-gym-cache"))
