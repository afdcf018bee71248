"""The tool `ask`: questions to the person, where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from treadle.secrets import known
from treadle.thread.message import clean
from treadle.tools.asking import Asked
from treadle.tools.limits import cut_bytes
from treadle.tools.tool import ToolContext, ToolError, tool

# A person answers a few questions at a time; more is a form.
MAX_QUESTIONS = 8
# More to choose from is not taken in at a glance.
MAX_OPTIONS = 10
# A paragraph; a longer question is several.
MAX_CHARACTERS = 2000
# Far more than anybody types; a client that sends a file has misunderstood.
ANSWER_LIMIT_BYTES = 5 * 1024

# A model that waits for a person who is not there would wait for ever; so it goes on.
NOBODY = "Nobody can be asked, or nobody answered: decide yourself, and say what you decided."
# What stands in the place of an answer that a person has left out.
_NO_ANSWER = "(no answer)"


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question."""

    id: Annotated[
        str, Meta(min_length=1, max_length=64, description="under which the answer comes back")
    ]
    text: Annotated[str, Meta(min_length=1, max_length=MAX_CHARACTERS, description="the question")]
    options: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=MAX_CHARACTERS)]],
        Meta(max_length=MAX_OPTIONS, description="answers to choose from; others are possible"),
    ] = []


# It waits for a person, within the asker's own bound.
@tool(capability="read", deadline_seconds=None)
async def ask(
    questions: Annotated[list[Question], Meta(min_length=1, max_length=MAX_QUESTIONS)],
    *,
    context: ToolContext,
) -> str:
    """Ask the person, and wait for the answers.

    Ask only what you cannot find out by yourself and cannot go on without. What is answered
    here allows no tool anything.

    Args:
        questions: what is asked, all at once.
    """
    asked = [Asked(one.id, one.text, tuple(one.options)) for one in questions]
    if len({one.id for one in asked}) < len(asked):
        raise ToolError("Two questions have the same id; give each its own.")
    answers = await context.session.asker.ask(asked)
    if answers is None:
        return NOBODY
    return "\n".join(f"{one.id}: {_answer(answers, one.id)}" for one in asked)


def _answer(answers: Mapping[str, str], question_id: str) -> str:
    # Redacted before it is cut: half a secret is not recognised any more.
    text = known().redact(clean(answers.get(question_id, "")))
    return cut_bytes(text, ANSWER_LIMIT_BYTES).strip() or _NO_ANSWER
