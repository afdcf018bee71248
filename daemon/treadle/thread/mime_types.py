"""The types of bytes: what they are called, and how they are told by their first bytes.

Owns the types that are known here. Refuses to know who sends or shows them.
"""

from __future__ import annotations

import re

# What says nothing about the bytes; the type of all that nobody can name better.
UNTOLD = "application/octet-stream"

# Known types, and what a file of each is called.
SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "application/pdf": ".pdf",
}


def canonical(mime_type: str) -> str:
    """Return a type in lower case, without parameters, under the one name that is used here.

    What is no type (RFC 6838, section 4.2) comes back empty.
    """
    name = mime_type.partition(";")[0].strip().lower()
    return _ALIASES.get(name, name) if _TYPE.fullmatch(name) else ""


def suffix(mime_type: str) -> str:
    """Return what a file of this type is called."""
    return SUFFIXES.get(mime_type, ".bin")


def told_by(data: bytes) -> str:
    """Return the known type that the bytes tell by themselves; empty where they tell none."""
    found = (name for name, magic in _MAGIC.items() if name not in _WEAK and magic.match(data))
    return next(found, "")


def fits(mime_type: str, data: bytes) -> bool:
    """Whether bytes may be of a type: those of a known one begin as its files do."""
    magic = _MAGIC.get(mime_type)
    if magic is not None:
        return magic.match(data) is not None
    return mime_type == UNTOLD or not told_by(data)


# A type and its subtype (RFC 6838, 4.2), of a length that none in use has.
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")

# Other names in use for the types that models take.
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-flac": "audio/flac",
    "application/x-pdf": "application/pdf",
}

# How the bytes of a type begin, for types that can be told so.
_MAGIC = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "audio/wav": re.compile(rb"RIFF.{4}WAVE", re.DOTALL),
    "audio/ogg": re.compile(rb"OggS"),
    "audio/flac": re.compile(rb"fLaC"),
    "application/pdf": re.compile(rb"%PDF-"),
    "audio/mpeg": re.compile(rb"ID3|\xff[\xe2-\xe7\xea-\xef\xf2-\xf7\xfa-\xff]"),
}

# A frame of MP3 begins like text in UTF-16: it bears a type out, and does not tell it.
_WEAK = frozenset({"audio/mpeg"})
