"""How large a conversation is by all that is known: what a provider counted, and what came since.

A provider's report stands above a tokenizer's count, which stands above the approximation: only the
provider sees what it adds, and how its model takes schemas and attachments. The count is for what
came since the last report, for the time before the first one and after a compaction, and for
endpoints that report nothing.

Owns how an approximation is set right by either, and the bound on characters that stands beside the
one on tokens. Pure: refuses to know threads' files, and what becomes of the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import NOTHING, Size, total
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
        tokens: with all that is sent beside it: what a provider counted; or the reported count of
            the last model call and what came since by a tokenizer's count, or the approximation
            where none is at hand; or all of it by those.
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


@dataclass(frozen=True, slots=True)
class Tally:
    """What is known of a conversation's size, to be kept while it grows.

    Args:
        size: of all its messages.
        reported: what a provider counted of it at its last report that still holds; 0 for none.
        since: the size of what came since that report.
    """

    size: Size = NOTHING
    reported: int = 0
    since: Size = NOTHING

    def then(self, entries: Sequence[Placed], sizes: Sequence[Size], through: int) -> Tally:
        """Return the tally of a conversation that has grown.

        Args:
            entries: what came.
            sizes: how large each of it is.
            through: the last ordinal that a compaction replaced; -1 where none did. What was
                reported up to there was counted before that.
        """
        size = self.size + total(sizes)
        for place in range(len(entries) - 1, -1, -1):
            message, ordinal = entries[place].message, entries[place].ordinal
            if ordinal is None or ordinal <= through:
                return Tally(size)
            usage = message.usage if message.role == "assistant" else None
            # Some servers count only what they say.
            if usage is not None and usage.input_tokens > 0:
                reported = usage.input_tokens + usage.output_tokens
                return Tally(size, reported, total(sizes[place + 1 :]))
        since = self.since + total(sizes) if self.reported else NOTHING
        return Tally(size, self.reported, since)


def reckon(tally: Tally, overhead: int, window: int, counted: int = 0) -> Reckoning:
    """Tell how large a conversation is.

    Args:
        tally: of its messages.
        overhead: the approximation of what is sent beside it.
        window: the model's, in tokens.
        counted: what a provider says of just this conversation; 0 where it says nothing.
    """
    approximate = overhead + tally.size.tokens
    tokens = overhead + tally.size.counted
    factor = 1.0
    if tally.size.more:
        # However far an exact count is from the approximation of just this text, what a
        # compaction writes is of another kind.
        factor = min(max(tokens / max(approximate, 1), LEAST_TOKENS_OF_ONE), MOST_TOKENS_OF_ONE)
    count = counted
    if count <= 0 and tally.reported:
        count = tally.reported + tally.since.counted
    found = count / max(approximate, 1)
    if LEAST_TOKENS_OF_ONE <= found <= MOST_TOKENS_OF_ONE:
        tokens, factor = count, found
    scaled = int(overhead * factor)
    in_characters = scaled + tally.size.characters * window // MOST_CHARACTERS
    return Reckoning(max(tokens, in_characters), scaled, factor, window)
