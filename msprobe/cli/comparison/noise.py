"""``msprobe noise``: learns how far reruns of one program differ, for ``msprobe compare --noise``."""

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFile

_UNREADABLE = 2


@click.command("noise")
@click.argument("runs", nargs=-1, required=True, type=click.Path())
@click.option(
    "--perturb",
    metavar="COMMAND",
    help="Run the program again, its parameters and inputs moved by one unit round-off: what rounding does.",
)
@click.option(
    "--times", type=click.IntRange(min=1), default=3, show_default=True, help="How often --perturb runs the program."
)
@shared("output_path", default="./noise.json", type=OutputFile(), help="File to write.")
def command(runs: tuple[str, ...], perturb: str | None, times: int, output_path: str) -> int:
    """Learn the normal spread from RUNS: two or more dumps of the same program, same data, same settings.

    With --perturb one dump is enough; COMMAND, one text such as "python train.py", is the program that made it. The
    spread is kept per operator, dtype and depth. Exit status: 0 done, 2 unreadable input (also a
    value in a record, which then has no spread), 3 not comparable.
    """
    from msprobe.analyze.noise_learning import learn
    from msprobe.compare.inputs.locations import local, opened

    file = local(output_path)
    paths = [opened(run) for run in runs]
    if perturb is None:
        learned = learn(paths)
    else:
        from msprobe.jobs.perturbed_runs import perturbed_runs

        with perturbed_runs(perturb, times) as perturbed:
            learned = learn([*paths, *perturbed])
    learned.profile.write(file)
    for line in learned.lines:
        click.echo(line)
    click.echo(f"Result: {output_path}")
    return _UNREADABLE if learned.lost else 0
