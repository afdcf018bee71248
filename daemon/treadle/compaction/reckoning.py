"""How large a conversation is by all that is known: what a provider counted, and what came since.

Owns how an approximation is set right by a reported usage, and the bound on characters that stands
beside the one on tokens. Pure: refuses to know threads' files, and what becomes of the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.thread.history import Placed

# Endpoints refuse requests beyond 20 to 50 MB, and attachments may take most of that. No window of
# today takes as much text as this: it binds where text has very many characters to a token, or a
# window was said to be larger than it is. Text of several bytes to a character has so many tokens
# that a window binds long before.
MOST_CHARACTERS = 8 << 20

# How far a report may set the approximation right, either way: scripts with several tokens to a
# character on one side, long runs of the same character on the other. What is beyond is no count:
# some servers leave out what they had in their cache, and some add up all that was ever asked.
MOST_TOKENS_OF_ONE = 16.0
LEAST_TOKENS_OF_ONE = 0.25


@dataclass(frozen=True, slots=True)
class Reckoning:
    """How large a conversation is.

    Args:
        tokens: with all that is sent beside it: what a provider counted, the reported count of the
            last model call and the approximation of what came since, or the approximation of all.
        overhead: what is sent beside it: instructions and the schemas of tools.
        factor: how many tokens one of the approximation is.
        window: the model's, in tokens.
    """

    tokens: int
    overhead: int
    factor: float
    window: int

    def measure(self, conversation: Conversation) -> int:
        """Return how large a conversation of this kind of text is, alone."""
        size = conversation.size
        return max(int(size.tokens * self.factor), size.characters * self.window // MOST_CHARACTERS)

    def total(self, conversation: Conversation) -> int:
        """Return how large it is with all that is sent beside it."""
        return self.overhead + self.measure(conversation)

    def fixed(self, conversation: Conversation) -> int:
        """Return what of it no compaction can give up, with all that is sent beside it."""
        kept = tuple(conversation.entries[place] for place in sorted(conversation.protected))
        return self.total(Conversation(kept, {}))


def reckon(
    conversation: Conversation, through: int, overhead: int, window: int, counted: int = 0
) -> Reckoning:
    """Tell how large a conversation is.

    Args:
        conversation: it.
        through: the last ordinal that a compaction replaced; -1 where none did. What was reported
            up to there was counted before that.
        overhead: the approximation of what is sent beside it.
        window: the model's, in tokens.
        counted: what a provider says of just this conversation; 0 where it says nothing.
    """
    approximate = overhead + conversation.size.tokens
    tokens, factor = approximate, 1.0
    count = counted if counted > 0 else _counted(conversation.entries, through)
    found = count / max(approximate, 1)
    if LEAST_TOKENS_OF_ONE <= found <= MOST_TOKENS_OF_ONE:
        tokens, factor = count, found
    scaled = int(overhead * factor)
    in_characters = scaled + conversation.size.characters * window // MOST_CHARACTERS
    return Reckoning(max(tokens, in_characters), scaled, factor, window)


def _counted(entries: Sequence[Placed], through: int) -> int:
    """Return the last count of a provider that still holds, with what came since; 0 for none."""
    for place in range(len(entries) - 1, -1, -1):
        message, ordinal = entries[place].message, entries[place].ordinal
        if ordinal is None or ordinal <= through:
            return 0
        usage = message.usage if message.role == "assistant" else None
        # Some servers count only what they say.
        if usage is not None and usage.input_tokens > 0:
            since = tokens_of(entry.message for entry in entries[place + 1 :])
            return usage.input_tokens + usage.output_tokens + since
    return 0
