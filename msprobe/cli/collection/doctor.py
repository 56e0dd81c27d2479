"""``msprobe doctor config.json``: why a dump is, or would be, empty."""

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import FrameworkName

_EXIT_REASON = 1


@click.command("doctor")
@click.argument("config", type=click.Path())
@click.option("--world", type=click.IntRange(min=1), help="How many processes the job has.")
@shared("input_path", older=("--dump",), help="A dump to look at; default: the dump_path of CONFIG, where it exists.")
@shared(
    "framework",
    type=FrameworkName(),
    help="The framework of the program; default: that of the dump, or else what holds for all of them.",
)
@shared("run")
def command(config: str, world: int | None, input_path: str | None, framework: str | None, run: str | None) -> int:
    """Explain why a dump taken with CONFIG is, or would be, empty or has less in it than expected.

    One line per finding: a `reason` makes data missing for certain, a `note` is worth a look. Exit status: 0 when no
    reason was found, 1 when there is one, 2 when CONFIG cannot be opened.
    """
    from pathlib import Path

    from msprobe.analyze.doctor import examine

    findings = examine(config, world, None if input_path is None else Path(input_path), framework, run)
    for finding in findings:
        click.echo(str(finding))
    reasons = sum(finding.certain for finding in findings)
    if reasons:
        return _EXIT_REASON
    program = "a program that calls start(), runs the model and calls stop() and step() leaves data"
    click.echo(f"no reason found: {program}{', under what the notes say' if findings else ''}")
    return 0
