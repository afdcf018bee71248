"""Judging a call by the agent's policy, and asking a person where that says so."""

from __future__ import annotations

import msgspec

from treadle.permissions.approvals import Question
from treadle.sanitise import clean, clean_line
from treadle.secrets import known
from treadle.stack.stack import App
from treadle.thread.repair import NEVER_ALLOWED_TEXT
from treadle.tools.tool import CallEnv, Shown, ToolError

# A line that a person takes in at a glance.
_DETAIL_CHARACTERS = 300
# Beyond this nobody reads on, and a dialog that shows more stalls the editor.
_PREVIEW_CHARACTERS = 20_000

# Whoever runs a call through `Permit` can tell by these texts that it did not run.
REFUSED = "{name} is not allowed: this agent's permissions are {mode}. Go on without it."
DENIED = "{name} was not allowed, so it did not run. Do not try it again; ask what to do."


class Permit:
    """Lets a call run that is allowed, and no other. Belongs between Validate and what acts."""

    def __init__(self, app: App[CallEnv]) -> None:
        self._app = app

    async def __call__(self, env: CallEnv) -> None:
        """Pass the env inwards once the call is allowed.

        Raises:
            ToolError: it is refused, or a person said no.
        """
        assert env.tool is not None, "Validate belongs around Permit"
        name, policy = env.tool.spec.name, env.context.policy
        verdict = policy.verdict(name, env.tool.capability)
        if verdict == "refuse":
            raise ToolError(REFUSED.format(name=name, mode=policy.mode))
        if verdict == "ask" and not await _is_allowed(env):
            raise ToolError(DENIED.format(name=name))
        await self._app(env)


async def _is_allowed(env: CallEnv) -> bool:
    """Ask a person, unless that is known already."""
    question = _question(env, await _shown(env))
    before, env.if_stopped = env.if_stopped, NEVER_ALLOWED_TEXT
    is_allowed = await env.context.session.approvals.permit(question)
    env.if_stopped = before
    return is_allowed


async def _shown(env: CallEnv) -> Shown:
    """Return what a person is shown of the call."""
    assert env.tool is not None, "Validate belongs around Permit"
    if env.tool.preview is not None:
        return await env.tool.preview(env.arguments, env.context)
    return Shown(f"{env.call.name} {msgspec.json.encode(env.call.arguments).decode()}")


def _question(env: CallEnv, shown: Shown) -> Question:
    """Make the question of what a person is shown, bounded and without secrets."""
    assert env.tool is not None, "Validate belongs around Permit"
    # Redacted before it is cut: half a secret is not recognised any more. Nothing that a model
    # writes may hide a part of what a person judges.
    session = env.context.session
    whole = clean(known().redact(shown.detail))
    detail = clean_line(whole)
    covers = shown.covers or f"every call of {env.tool.spec.name}"
    if session.elsewhere:
        # The same words do another thing there, so they are allowed for that place alone.
        detail, covers = f"in {session.elsewhere}: {detail}", f"{session.elsewhere}: {covers}"
    return Question(
        call=env.call,
        capability=env.tool.capability,
        detail=_cut(detail, _DETAIL_CHARACTERS),
        preview=_cut(_preview(whole, clean(known().redact(shown.preview))), _PREVIEW_CHARACTERS),
        covers=covers,
        task=session.task,
    )


def _preview(detail: str, preview: str) -> str:
    """Return what shows a person all of a call: the detail itself, where a line does not."""
    fits_a_line = len(detail) <= _DETAIL_CHARACTERS and "\n" not in detail.strip()
    return preview or ("" if fits_a_line else detail)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters]"
