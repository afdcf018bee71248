"""The tool `jobs`: what runs in the background, what it has printed, and stopping it."""

from __future__ import annotations

from treadle.secrets import known
from treadle.tools.commands.report import news, standing
from treadle.tools.commands.running import Job
from treadle.tools.limits import cut_characters
from treadle.tools.nearest import did_you_mean
from treadle.tools.tool import ToolContext, ToolError, tool

# Somebody wants it to end, and waits: servers get the time to tidy up.
STOP_SECONDS = 1.0

# A list is looked over; what a job printed is asked for by its name.
_COMMAND_CHARACTERS = 200


@tool(capability="read")
async def jobs(
    id: str | None = None,  # noqa: A002 - what models call it; the built-in is not used here
    *,
    stop: bool = False,
    context: ToolContext,
) -> str:
    """List the background jobs, or show what one has printed since you last looked, or stop it.

    Args:
        id: the job, such as job-1; all are listed without it.
        stop: stop the job with all it has started.
    """
    known_jobs = context.session.jobs.all
    if id is None and not stop:
        return "\n".join(map(_line, known_jobs)) or "There are no background jobs."
    if id is None:
        raise ToolError(f"Name the job to stop. {_names(known_jobs)}")
    job = context.session.jobs.find(id)
    if job is None:
        guess = did_you_mean(id, [each.name for each in known_jobs])
        raise ToolError(
            f"There is no job {id[:_COMMAND_CHARACTERS]!r}.{guess} {_names(known_jobs)}"
        )
    if stop:
        await job.stop(grace_seconds=STOP_SECONDS)
    return f"{_line(job)}\n{news(job)}"


def _line(job: Job) -> str:
    # Secrets first: half of one, at the cut, is not recognised any more.
    return cut_characters(known().redact(standing(job)), _COMMAND_CHARACTERS)


def _names(jobs_: tuple[Job, ...]) -> str:
    names = ", ".join(job.name for job in jobs_)
    return f"The jobs are: {names}." if names else "There are no background jobs."
