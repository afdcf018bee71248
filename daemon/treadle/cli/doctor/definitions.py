"""The person's agents and `config.toml`: what cannot be used as it stands, and where.

Refuses to know what a file may say: `agents` reads it, and names what is wrong.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.config import CONFIG_NAME, Config, RetentionSettings
from treadle.agents.definition import AgentDefinition
from treadle.cli.agent_files import current_workspace, quiet
from treadle.cli.doctor.report import Check, Report
from treadle.errors import InvalidAgent


def look_at_definitions(
    report: Report, config_folder: Path
) -> tuple[list[AgentDefinition], Config | None]:
    """Tell what is wrong with the files of the config folder.

    Returns:
        The agents that can be used, and the configuration; None when it is broken, and then no
        agent can be prompted.
    """
    with quiet():
        return _look(report, config_folder)


def _look(report: Report, config_folder: Path) -> tuple[list[AgentDefinition], Config | None]:
    catalogue = Catalogue(config_folder)
    config_file = config_folder / CONFIG_NAME
    try:
        config = catalogue.config()
        report.checks += _notices(config, config_file)
        report.checks.append(Check("retention", "ok", _retention(config.retention)))
    except InvalidAgent as error:
        config = None
        told = f"{error.message}; no agent can be prompted until it is mended"
        report.checks.append(Check("config.toml", "problem", told, _edit(config_file)))
    agents, problems = catalogue.list(current_workspace())
    for problem in problems:
        if problem.path != str(config_file):
            report.checks.append(_check(problem, catalogue.name_of(problem.path)))
    names = ", ".join(agent.name for agent in agents)
    report.checks.append(Check("agents", "ok", f"{len(agents)} can be used: {names}"))
    return agents, config


def _check(problem: AgentProblem, agent: str | None) -> Check:
    """Tell a problem; agents of a project that nobody trusts yet are none of this machine's."""
    if problem.how:
        # The message ends in the command, which stands beside it here.
        detail = problem.message.removesuffix(f", then run: {problem.how}")
        return Check("workspace", "warning", detail, problem.how)
    name = f"agent/{agent or Path(problem.path).stem}"
    return Check(name, "problem", problem.message, _edit(problem.path))


def _notices(config: Config, file: Path) -> list[Check]:
    if not config.notices:
        said = f"{file} is fine" if file.exists() else f"there is no {file}, and none is needed"
        return [Check("config.toml", "ok", said)]
    return [Check("config.toml", "warning", notice, _edit(file)) for notice in config.notices]


def _retention(settings: RetentionSettings) -> str:
    due = [f"not used for {settings.days} days"] if settings.days else []
    due += [f"older than the newest {settings.threads}"] if settings.threads else []
    if not due:
        return "every thread is kept for ever"
    return f"threads {' or '.join(due)} are deleted; treadle sessions expire --dry-run lists them"


def _edit(path: str | Path) -> str:
    return f"${{EDITOR:-vi}} {shlex.quote(str(path))}"
