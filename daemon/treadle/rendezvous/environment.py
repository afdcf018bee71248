"""What a daemon was started with that changes what it does, told without its values.

A daemon that outlives its clients keeps the environment of the first one. A client with another
model or key in its own must learn of that, and no file may say what they are.
Owns which variables that is.
"""

from __future__ import annotations

import hashlib
import os

from treadle.places import (
    CACHE_VARIABLE,
    CONFIG_VARIABLE,
    DATA_VARIABLE,
    LOG_VARIABLE,
    config_folder,
)
from treadle.rendezvous.address import RUNTIME_VARIABLE, TRANSPORT_VARIABLE
from treadle.rendezvous.told import Told

NO_DAEMON_VARIABLE = "TREADLE_NO_DAEMON"

# Which daemon is met, or how it logs: nothing that an answer depends on. The configuration's folder
# is compared as it is found.
_NO_MATTER = frozenset(
    {
        CACHE_VARIABLE,
        CONFIG_VARIABLE,
        DATA_VARIABLE,
        LOG_VARIABLE,
        NO_DAEMON_VARIABLE,
        RUNTIME_VARIABLE,
        TRANSPORT_VARIABLE,
        # What marks a command of an agent's, by `process/census`.
        "TREADLE_JOB",
        "TREADLE_LOG_LEVEL",
    }
)

_PREFIXES = ("TREADLE_", "OPENAI_")

# What a value is mixed with, so that equal keys of two daemons do not look equal.
_SALT = "salt"
_SALT_BYTES = 16

# Enough that no two values are taken for one, too few to be anything but a digest.
_DIGITS = 16

# What the folder of the configuration is called where names are told.
CONFIG_NAME = "the configuration folder"


def digests(config: str | None = None) -> dict[str, str]:
    """Return digests of what this process would start a daemon with, by name, and their salt.

    Args:
        config: the value of `--config-dir`.
    """
    return _digests(config, os.urandom(_SALT_BYTES).hex())


def differing(told: Told, config: str | None = None) -> list[str]:
    """Name what a running daemon was started with that is different in this process.

    Args:
        told: what it told of itself.
        config: the value of `--config-dir`.
    """
    ours = _digests(config, told.environment.get(_SALT, ""))
    names = {*ours, *told.environment}
    return sorted(name for name in names if ours.get(name) != told.environment.get(name))


def _digests(config: str | None, salt: str) -> dict[str, str]:
    values = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PREFIXES) and name not in _NO_MATTER and value
    }
    values[CONFIG_NAME] = os.path.realpath(config_folder(config))
    salted = salt.encode()
    found = {
        name: hashlib.sha256(salted + value.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
        for name, value in values.items()
    }
    return {**found, _SALT: salt}
