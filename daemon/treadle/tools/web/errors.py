"""The one error of this package, in words that a model can act on."""

from __future__ import annotations


class WebError(Exception):
    """Something was not asked for, or was not answered; the text says what to do."""
