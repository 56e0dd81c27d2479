"""``msprobe data2db``: the statistics of a dump over its steps, as a database for a trend viewer."""

import click

from msprobe.cli.option_types import OutputFolder


@click.command("data2db")
@click.option("--db", required=True, type=OutputFolder(), help="Folder for the database.")
@click.option("--data", required=True, type=click.Path(), help="Dump root with its step folders.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["auto", "dump", "monitor"]),
    default="auto",
    show_default=True,
    help="What lies in --data.",
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
    default=True,
    show_default=True,
    help="Whether each call of the outermost module is a step of its own.",
)
@click.option(
    "--process_num",
    "--process-num",
    type=click.IntRange(1, 128),
    default=1,
    show_default=True,
    help="Processes that read dumps.",
)
def command(db: str, data: str, kind: str, mapping: str | None, micro_step: bool, process_num: int) -> int:
    """Write norm, max, min and mean of what modules and functions were given and gave, over steps and ranks.

    The result is DB/dump_data.trend.db, an SQLite file; an existing file is replaced. Exit status: 0 done,
    2 unreadable input, 3 no statistics in the dump.
    """
    from msprobe.jobs.executors.select import find_executor
    from msprobe.jobs.progress import progress_bar
    from msprobe.trend.job import refuse_monitor_format, write_trend

    if kind == "monitor":
        raise refuse_monitor_format()
    executor = find_executor(f"processes:{process_num}", process_num, ()) if process_num > 1 else None
    with progress_bar("reading", "dumps") as show:
        run = executor.run if executor else None
        trend = write_trend(data, db, mapping, divided=micro_step, run=run, progress=show)
    click.echo(f"{trend.rows} values over {trend.steps} steps and {trend.ranks} ranks")
    for note in trend.notes:
        click.echo(f"Note: {note}")
    click.echo(f"Result: {trend.path}")
    return 0
