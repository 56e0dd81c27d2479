"""``msprobe split_inputs``: cuts the recorded inputs of one process for the ranks of another layout."""

from pathlib import Path

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_LISTED = 8


@click.command("split_inputs")
@inputs(target_path="TARGET", golden_path="GOLDEN")
@shared("target_path", required=True)
@shared("golden_path", required=True)
@shared(
    "output_path", default="./inputs", type=OutputFolder(), help="Folder for the plans, which load.path then names."
)
@shared("target_parallel")
def command(target_path: str, golden_path: str, output_path: str, target_parallel: str | None) -> None:
    """Cut the inputs of a good run on one process for the modules of a run in another layout.

    The good run has task tensor and level L0 or mix; of the other run any dump of the same steps with modules will do.
    Run it again with {"load": {"path": FOLDER, "dump_after_load": true}}: each module gets the right input, and compare
    names every wrong one. Exit status: 0 done, 2 unreadable input, 3 not comparable.
    """
    from msprobe.jobs.split_inputs import write_split_inputs

    written = write_split_inputs(Path(target_path), Path(golden_path), Path(output_path), target_parallel)
    for reason in written.left[:_LISTED]:
        click.echo(f"Not fed: {reason}")
    if len(written.left) > _LISTED:
        click.echo(f"Not fed: ... and {len(written.left) - _LISTED} more")
    click.echo(f"Inputs: {written.tensors} tensors for {written.plans} processes in {output_path}")
