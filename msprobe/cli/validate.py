"""``msprobe validate config.json``: find everything wrong in a configuration before a training starts with it."""

from typing import TYPE_CHECKING

import click

from msprobe.cli.framework_option import FrameworkName
from msprobe.cli.main import EXIT_USAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.core.config import ConfigReport
    from msprobe.core.errors import Problem


@click.command("validate")
@click.argument("config", type=click.Path())
@click.option("-f", "--framework", type=FrameworkName(), help="Also check what this framework does not have.")
def command(config: str, framework: str | None) -> int:
    """Check CONFIG (.json, .yaml) and print every problem and warning.

    Each line names the place in the file, the value found and what is allowed. Exit status: 0 when the file can be
    used, 2 when it cannot.
    """
    from msprobe.core.config import check_config
    from msprobe.core.errors import ConfigError

    try:
        report = check_config(config)
    except ConfigError as error:
        return _print_all(error.source, error.problems, ())
    return _print_report(report, framework)


def _print_report(report: "ConfigReport", framework: str | None) -> int:
    from msprobe.core.backend.support import framework_problems
    from msprobe.core.config.path_checks import path_problems

    if report.config is None:
        return _print_all(report.source, report.problems, report.warnings)
    problems = framework_problems(report.config, framework) if framework else ()
    # A missing input directory is no fault of the file: it may exist where the training runs.
    missing = [f"{problem} (on this machine)" for problem in path_problems(report.config)]
    return _print_all(report.source, problems, (*report.warnings, *missing))


def _print_all(source: str, problems: "Sequence[Problem]", warnings: tuple[str, ...]) -> int:
    for warning in warnings:
        click.echo(f"{source}: warning: {warning}")
    for problem in problems:
        click.echo(f"{source}: error: {problem}")
    verdict = "can be used" if not problems else "cannot be used"
    click.echo(
        f"{source}: {verdict} ({_count_text(len(problems), 'problem')}, {_count_text(len(warnings), 'warning')})"
    )
    return EXIT_USAGE if problems else 0


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
