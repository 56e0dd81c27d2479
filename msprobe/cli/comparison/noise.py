"""``msprobe noise``: learns how far reruns of one program differ, for ``msprobe compare --noise``."""

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFile


@click.command("noise")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@shared("output_path", default="./noise.json", type=OutputFile(), help="File to write.")
def command(runs: tuple[str, ...], output_path: str) -> None:
    """Learn the normal spread from RUNS: two or more dumps of the same program, same data, same settings.

    The spread is kept per operator, dtype and depth. Exit status: 0 done, 2 unreadable input, 3 not comparable.
    """
    from msprobe.analyze.noise_learning import learn
    from msprobe.compare.inputs.locations import local, opened

    file = local(output_path)
    learned = learn([opened(run) for run in runs])
    learned.profile.write(file)
    for line in learned.lines:
        click.echo(line)
    click.echo(f"Result: {output_path}")
