"""``msprobe code_mapping``: links kernels of a static graph to the source lines they come from."""

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder


@click.command("code_mapping")
@inputs(ir="IR", input_path="KERNELS")
@click.option("--ir", type=click.Path(), required=True, help="A printed graph (.ir), or a folder of them.")
@shared(
    "input_path",
    required=True,
    help="A folder of a kernel dump with .npy or statistic.csv files, or one statistic.csv.",
)
@shared("output_path", type=OutputFolder(), default="./", help="Folder for the table.")
def command(ir: str, input_path: str, output_path: str) -> int:
    """Link the files of a MindSpore kernel dump to lines of Python.

    Tensor files are listed in code_mapping_{time}.csv; each statistic.csv gets the columns Code Stack and Scope Name.
    """
    from pathlib import Path

    from msprobe.core.kernel_dumps.code_mapping import map_code

    mapped = map_code(Path(ir), Path(input_path), Path(output_path))
    if mapped.table is not None:
        click.echo(f"Table: {mapped.table}")
    for table in mapped.statistics:
        click.echo(f"Columns added: {table}")
    click.echo(f"{mapped.matched} of {mapped.seen} tensors of kernels have source lines")
    return 0
