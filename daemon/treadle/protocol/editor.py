"""What editors that know only LSP say to us and hear from us: commands and progress."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from treadle.protocol.base import ProgressToken, WireStruct


class ExecuteCommandParams(WireStruct):
    """Run a command: one of our methods, its name with dots, behind `treadle.`.

    `arguments` holds the method's params, or plain strings as a person types them.
    """

    command: str
    arguments: list[Any] | None = None
    work_done_token: ProgressToken | None = None


class ProgressCancelParams(WireStruct):
    """Stop what is shown as the progress of this token."""

    token: ProgressToken


class WorkDoneBegin(WireStruct, tag_field="kind", tag="begin"):
    """Work begins; the person can stop it."""

    title: str
    cancellable: bool


class WorkDoneReport(WireStruct, tag_field="kind", tag="report"):
    """What is going on now."""

    message: str


class WorkDoneEnd(WireStruct, tag_field="kind", tag="end"):
    """The work is over."""

    message: str


class PartialText(WireStruct, tag_field="kind", tag="text"):
    """A piece of the answer, as a partial result of the prompt."""

    text: str


class PartialReasoning(WireStruct, tag_field="kind", tag="reasoning"):
    """A piece of what the model thought aloud, in the same way."""

    text: str


ProgressValue: TypeAlias = (
    WorkDoneBegin | WorkDoneReport | WorkDoneEnd | PartialText | PartialReasoning
)
"""What can be told under a token."""


class ProgressParams(WireStruct):
    """Progress under a token that the client gave, or agreed to."""

    token: ProgressToken
    value: ProgressValue


class ShowMessageParams(WireStruct):
    """Words for the person; `type` 1 is LSP's number for an error, 3 for information."""

    type: Literal[1, 2, 3]
    message: str
