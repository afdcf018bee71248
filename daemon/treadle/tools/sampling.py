"""The seam between an MCP server that wants the agent's model to answer, and whoever asks that.

Refuses to know who runs the model, and what a server is.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

Said: TypeAlias = tuple[Literal["user", "assistant"], str]
"""A role and a text: a message of what the model is asked."""


class CannotSample(Exception):
    """The model answers nothing now; the text says why."""


class Sampler(Protocol):
    """Has the model of a session's running turn answer something beside its conversation.

    Contract: each answer is one model call of the turn, counted against what it has left, and
    its tokens are the turn's; it ends with the turn.
    """

    async def sample(
        self, messages: tuple[Said, ...], system: str, max_tokens: int
    ) -> tuple[str, str]:
        """Return the model's text, and its name.

        Args:
            messages: what was said; the last one is the user's.
            system: instructions; none where empty.
            max_tokens: how long the answer may be; 0 where nobody says.

        Raises:
            CannotSample: no turn runs, none of its calls are left, or the model failed.
        """
