"""``msprobe data2db``: the statistics of a dump over its steps, as a database for a trend viewer."""

from typing import Any

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder


@click.command("data2db")
@shared("output_path", required=True, type=OutputFolder(), help="Folder for the database.")
@shared("input_path", required=True, help="Dump root with its step folders.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["auto", "dump", "monitor"]),
    default="auto",
    show_default=True,
    help="What lies in the input folder.",
)
@click.option(
    "--mapping",
    type=click.Path(),
    metavar="FILE",
    help='JSON file {"text": "replacement"} to change names of calls with.',
)
@click.option(
    "--micro_step",
    "--micro-step",
    type=click.BOOL,
    default=None,
    help="What a step is: each call of the outermost module (true), or a step of the dump (false); without this option "
    "a step of the optimizer.",
)
@click.option(
    "--process_num",
    "--process-num",
    type=click.IntRange(1, 128),
    default=1,
    show_default=True,
    help="Processes that read dumps.",
)
@shared("run")
def command(output_path: str, input_path: str, mapping: str | None, process_num: int, **options: Any) -> int:
    """Write norm, max, min and mean of what modules and functions were given and gave, over steps and ranks.

    The result is dump_data.trend.db in the output folder, an SQLite file; an existing file is replaced. Exit status:
    0 done, 2 unreadable input, 3 no statistics in the dump.
    """
    from msprobe.jobs.executors.select import find_executor
    from msprobe.jobs.progress import progress_bar
    from msprobe.trend.job import Execution, refuse_monitor_format, write_trend

    if options["kind"] == "monitor":
        raise refuse_monitor_format()
    executor = find_executor(f"processes:{process_num}", process_num, ()) if process_num > 1 else None
    with progress_bar("reading", "dumps") as show:
        execution = Execution(executor.run if executor else None, show)
        trend = write_trend(
            input_path, output_path, mapping, divided=options["micro_step"], run=options["run"], execution=execution
        )
    click.echo(f"{trend.rows} values over {trend.steps} steps and {trend.ranks} ranks")
    for note in trend.notes:
        click.echo(f"Note: {note}")
    click.echo(f"Result: {trend.path}")
    return 0
