"""A model's own way to count tokens, where the tokenizer is at hand.

Owns finding `tiktoken`, which is no dependency, and its vocabulary on this machine, and what
counting may cost. Refuses to fetch anything, and to know what is counted.

A person turns it on by installing `tiktoken` beside Treadle (`pip install treadle[tokens]`) and
having it fetch its vocabulary once, which it keeps where TIKTOKEN_CACHE_DIR says, which the daemon
has to be told too: `python -c "import tiktoken; tiktoken.encoding_for_model('gpt-5')"`. A daemon
that runs is to be started anew. It is used for models that `tiktoken` knows by name.

`tiktoken` downloads a vocabulary that it does not find in its cache, or finds there with a wrong
checksum. Here it is only asked for one whose file lies there, whole and unchanged.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

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

# A text is counted in slices: what is in one piece, as a million blanks, takes some versions of
# `tiktoken` time that is quadratic, and ends in others with their stack. A seam costs a token.
SLICE_CHARACTERS = 2_000

# So many slices of one text are counted, 0.02 s of work: of a longer text, slices that lie evenly
# in it, and the rest is taken for like them.
MAX_SLICES = 50
MAX_CHARACTERS = SLICE_CHARACTERS * MAX_SLICES

# Names come from people's files, so there are few; a program that makes them up without end has
# the earliest looked for again.
MAX_REMEMBERED = 1_000

CountText: TypeAlias = Callable[[str], int | None]
"""Counts a text's tokens; None where it cannot. Contract: never raises, works in any thread."""


def counter_at_hand(model: str) -> CountText | None:
    """Return what `exact_counter` does, once it has been built; None until then.

    The first call for a model has it built, in a thread of its own.

    Contract: never blocks and never raises.

    Args:
        model: its name as the endpoint knows it.
    """
    if model not in _found:
        if len(_found) >= MAX_REMEMBERED:
            _found.pop(next(iter(_found)), None)
        _found[model] = None
        # A daemon thread, awaited by nobody: it ends by itself, and nothing is lost with it.
        name = "treadle-vocabulary"
        threading.Thread(target=_find, args=(model,), name=name, daemon=True).start()
    return _found.get(model)


_found: dict[str, CountText | None] = {}


def _find(model: str) -> None:
    _found[model] = exact_counter(model)


def exact_counter(model: str) -> CountText | None:
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

    def count(text: str) -> int | None:
        slices = _slices(text)
        try:
            # What looks like a special token was said by somebody and is text.
            tokens = sum(len(encoding.encode_ordinary(each)) for each in slices)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic of native code is no Exception
            logger.info("tiktoken cannot count a text for %s", model, exc_info=True)
            return None
        return tokens * len(text) // max(sum(map(len, slices)), 1)

    return count


def _slices(text: str) -> list[str]:
    """Cut a text into slices; of one that is too long, take some that lie evenly in it."""
    step = max(SLICE_CHARACTERS, -(-len(text) // MAX_SLICES))
    return [text[at : at + SLICE_CHARACTERS] for at in range(0, len(text), step)]


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
