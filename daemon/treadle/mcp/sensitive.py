"""What no server may ask a person for, told by the words that it uses.

MCP, "Elicitation": servers must not ask for sensitive information in a form. Refuses to know what
becomes of a question that is not put.
"""

from __future__ import annotations

import itertools
import re

# Words of a name or a title; what is asked for is what they name. Tokens are counted, a token is
# one that lets in.
_NAMES = frozenset(
    (
        *("password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets"),
        *("token", "credential", "credentials", "apikey", "apikeys", "otp", "cvv", "cvc"),
    )
)
_PAIRS = frozenset(
    {("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("security", "code")}
)

# A description uses words in passing; these few are not said of anything else.
_IN_PASSING = frozenset({"password", "passphrase", "passcode"})

# Words as people and programs write them: api_key, apiKey, API-Key.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# A name is short, and a description is looked at no further than a person reads.
_CHARACTERS = 5000


def looks_secret(name: str, title: str = "", description: str = "") -> bool:
    """Tell whether a field seems to ask for a password, a key or the like; may err to both sides.

    Args:
        name: the member's.
        title: what it is called for people.
        description: what it is for.
    """
    words = [*_words(name), "", *_words(title)]
    return not (
        _NAMES.isdisjoint(words)
        and _PAIRS.isdisjoint(itertools.pairwise(words))
        and _IN_PASSING.isdisjoint(_words(description))
    )


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text[:_CHARACTERS])]
