"""Any OpenAI-compatible endpoint: client, request, stream, errors, and the completion of them.

Importing this package costs nothing; the `openai` library is imported at the first request.
"""

from __future__ import annotations

from treadle.models.openai.completion import OpenAICompletion

__all__ = ["OpenAICompletion"]
