"""``msprobe data2db``: statistics of a dump or a monitor over steps, as a database for a trend viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

if TYPE_CHECKING:
    from pathlib import Path


@click.command("data2db")
@inputs(input_path="DUMP")
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
    help="What a step is: each call of the outermost module, or each micro step of a monitor (true), or a step of the "
    "dump (false); without this option a step of the optimizer.",
)
@click.option(
    "--process_num",
    "--process-num",
    type=click.IntRange(1, 128),
    default=1,
    show_default=True,
    help="Processes that read dumps.",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    help="Files of a monitor: add what is new again and again, until Ctrl-C.",
)
@shared("run")
def command(output_path: str, input_path: str, kind: str, **options: Any) -> int:
    """Write the statistics of a dump, or of what a monitor wrote, over steps and ranks into a database.

    The result is dump_data.trend.db (norm, max, min and mean of what modules and functions were given and gave; an
    existing file is replaced), or monitor_data.trend.db (what the monitor measured; what is new is added to it), SQLite
    files that msprobe view and TensorBoard show. Exit status: 0 done, 2 unreadable input, 3 no statistics there.
    """
    from pathlib import Path

    from msprobe.monitor.recorded.trend_job import has_monitor_files

    folder = Path(input_path)
    has_monitor = kind != "dump" and "://" not in input_path and has_monitor_files(folder)
    if kind == "monitor" or has_monitor:
        _write_monitor(folder, Path(output_path), options)
    has_dump = kind == "dump" or not has_monitor or any(folder.rglob("dump.json"))
    if kind != "monitor" and has_dump:
        _write_dump(input_path, output_path, options)
    return 0


def _write_monitor(folder: Path, output: Path, options: dict[str, Any]) -> None:
    import contextlib
    import time

    from msprobe.compare.inputs.locations import opened
    from msprobe.jobs.progress import progress_bar
    from msprobe.monitor.recorded.trend_job import write_monitor_trend
    from msprobe.trend.job import read_mapping

    mapping = None if options["mapping"] is None else read_mapping(opened(options["mapping"]))
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            with progress_bar("reading", "files") as show:
                divided = options["micro_step"] is True
                trend = write_monitor_trend(folder, output, mapping, divided=divided, progress=show)
            click.echo(f"{trend.added} new values; {trend.rows} over {trend.steps} steps and {trend.ranks} ranks")
            for note in trend.notes:
                click.echo(f"Note: {note}")
            click.echo(f"Result: {trend.path}")
            if options["watch"] is None:
                return
            time.sleep(options["watch"])


def _write_dump(input_path: str, output_path: str, options: dict[str, Any]) -> None:
    from msprobe.jobs.executors.select import find_executor
    from msprobe.jobs.progress import progress_bar
    from msprobe.trend.job import Execution, write_trend

    count = options["process_num"]
    executor = find_executor(f"processes:{count}", count, ()) if count > 1 else None
    with progress_bar("reading", "dumps") as show:
        execution = Execution(executor.run if executor else None, show)
        trend = write_trend(
            input_path,
            output_path,
            options["mapping"],
            divided=options["micro_step"],
            run=options["run"],
            execution=execution,
        )
    click.echo(f"{trend.rows} values over {trend.steps} steps and {trend.ranks} ranks")
    for note in trend.notes:
        click.echo(f"Note: {note}")
    click.echo(f"Result: {trend.path}")
