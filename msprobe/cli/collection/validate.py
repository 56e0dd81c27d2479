"""``msprobe validate config.json``: find everything wrong in a configuration before a training starts with it."""

from typing import TYPE_CHECKING

import click

from msprobe.cli.main import EXIT_USAGE
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import FrameworkName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.core.config import DumpConfig
    from msprobe.core.errors import Problem


@click.command("validate")
@click.argument("config", type=click.Path())
@shared(
    "framework",
    type=FrameworkName(),
    help="The framework of the training; default: only what no framework can do is an error.",
)
@click.option("--elsewhere", is_flag=True, help="Warn of missing input paths: they are on the machine of the training.")
def command(config: str, framework: str | None, elsewhere: bool) -> int:
    """Check CONFIG (.json, .yaml) as PrecisionDebugger does, and print every problem and warning.

    Each line names the place in the file, the value found and what is allowed. Exit status: 0 when the file can be
    used, 2 when it cannot.
    """
    from msprobe.core.config import check_config
    from msprobe.core.errors import ConfigError

    try:
        report = check_config(config)
    except ConfigError as error:
        return _print_all(error.source, error.problems, ())
    if report.config is None:
        return _print_all(report.source, report.problems, report.warnings)
    problems, warnings = _support(report.config, framework)
    warnings = [*report.warnings, *warnings]
    if not elsewhere:
        problems += _missing(report.config)
    else:
        warnings += [f"{problem} (on this machine)" for problem in _missing(report.config)]
    return _print_all(report.source, problems, warnings)


def _support(config: "DumpConfig", framework: str | None) -> "tuple[list[Problem], list[str]]":
    """Return what keeps every framework that may be meant from serving ``config``, and warnings about some of them.

    Of one framework the warnings are about its modes.
    """
    from msprobe.core.backend.support import FRAMEWORKS, framework_problems, mode_refusals, refusals

    if framework is None:
        refused, refuses_all = refusals(config), len(refusals(config)) == len(FRAMEWORKS)
    else:
        refused, refuses_all = mode_refusals(config, framework), bool(framework_problems(config, framework))
    if refuses_all:
        return next(iter(refused.values())), []
    if note := config.task_spec.no_collection:
        return [], [f"task: {config.task}: {note}"]
    return [], [f"not on {name}: {problem}" for name, problems in refused.items() for problem in problems]


def _missing(config: "DumpConfig") -> "list[Problem]":
    from msprobe.core.config.path_checks import path_problems

    return list(path_problems(config))


def _print_all(source: str, problems: "Sequence[Problem]", warnings: "Sequence[str]") -> int:
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
