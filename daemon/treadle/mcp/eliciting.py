"""What a server asks the person: put as plain questions, and answered as its schema wants it.

Owns that the person sees who asks and which words are the server's, that nobody is asked for a
secret, and that whatever is no clear answer tells the server nothing. Refuses to know how a person
is reached (`tools.asking`), and what a schema may hold (`form`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from treadle.mcp.form import Declined, DoesNotFit, Field, NoForm, fields_of, line
from treadle.mcp.remote import ElicitationAnswer, Elicited
from treadle.sanitise import clean, clean_line
from treadle.secrets import known
from treadle.tools.asking import Asked, Asker

logger = logging.getLogger(__name__)

# A paragraph or two; a server that has more to say has pages for that.
MESSAGE_CHARACTERS = 2000
MESSAGE_LINES = 20

DECLINED = ElicitationAnswer("decline")
CANCELLED = ElicitationAnswer("cancel")

_CONFIRM = "confirm"


async def put_to_person(asker: Asker, server: str, asked: Elicited) -> ElicitationAnswer:
    """Ask the person what a server wants to know.

    The answers are the server's alone: no thread and no model gets them from here. Where nobody
    can be asked, nobody answers, the person says `decline`, or an answer does not fit twice, the
    server is told `decline`; where the person answered nothing at all, `cancel`.

    Args:
        asker: reaches the person, within a bound of its own.
        server: the server's name, as the person declared it.
        asked: its message, and the schema of what it wants.
    """
    try:
        fields = fields_of(asked.schema)
    except NoForm as refused:
        # Its own text names no more than a field, bounded and on one line.
        logger.warning("the MCP server %s asked in vain: %s", clean_line(server), refused)
        return DECLINED
    above = _above(server, asked.message)
    try:
        if not fields:
            return await _confirmed(asker, above)
        return await _answered(asker, above, fields)
    except Declined:
        return DECLINED


async def _confirmed(asker: Asker, above: str) -> ElicitationAnswer:
    """Ask for a yes or a no; whatever is neither is asked once more, and then a no."""
    for _ in range(2):
        answers = await _ask(asker, [Asked(_CONFIRM, f"{above}(yes or no)", ("yes", "no"))])
        word = answers.get(_CONFIRM)
        if word is None:
            return CANCELLED
        if word.strip().casefold() in ("yes", "y"):
            return ElicitationAnswer("accept")
        if word.strip().casefold() in ("no", "n", "decline"):
            break
    return DECLINED


async def _answered(asker: Asker, above: str, fields: Sequence[Field]) -> ElicitationAnswer:
    """Ask for each field, and once more for those whose answers do not fit.

    Raises:
        Declined: the person says so, or does not answer the second time.
    """
    ids = {str(number): field for number, field in enumerate(fields, 1)}
    asked = [field.question(key, above if key == "1" else "") for key, field in ids.items()]
    answers = await _ask(asker, asked)
    if ids.keys().isdisjoint(answers):
        return CANCELLED
    content, wrong = _read(ids, answers)
    if wrong:
        again = [ids[key].question(key, f"Once more: {why}.\n") for key, why in wrong.items()]
        mended, still_wrong = _read({key: ids[key] for key in wrong}, await _ask(asker, again))
        if still_wrong:
            return DECLINED
        content |= mended
    order = {field.name: content[field.name] for field in fields if field.name in content}
    return ElicitationAnswer("accept", order)


def _read(
    ids: Mapping[str, Field], answers: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return values by their fields' names, and why answers do not fit by their ids."""
    content: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for key, field in ids.items():
        try:
            value = field.read(answers.get(key, ""))
        except DoesNotFit as error:
            wrong[key] = str(error)
        else:
            if value is not None:
                content[field.name] = value
    return content, wrong


async def _ask(asker: Asker, questions: Sequence[Asked]) -> Mapping[str, str]:
    """Put questions.

    Raises:
        Declined: nobody can be asked, or nobody answers.
    """
    answers = await asker.ask(questions)
    if answers is None:
        raise Declined
    return answers


def _above(server: str, message: str) -> str:
    """Say who asks, and the server's own words, each line of them marked as such."""
    # Redacted before it is cut: half a secret is not recognised any more.
    told = clean(known().redact(message)).strip()
    cut = told[:MESSAGE_CHARACTERS].split("\n")[:MESSAGE_LINES]
    quoted = [f"> {each}" for each in cut if each.strip()]
    if "\n".join(cut) != told:
        quoted.append("> …")
    head = f"The MCP server {line(server)} asks you, in its own words:"
    hint = "(What you answer goes to that server; “decline” tells it nothing.)"
    return "\n".join([head, *quoted, hint, ""])
