"""``msprobe merge_result``: puts the result tables of many ranks side by side in one workbook."""

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder


@click.command("merge_result")
@inputs(input_path="FOLDER", config="CONFIG")
@shared("input_path", required=True, help="Output of msprobe compare.")
@shared("output_path", default="./output", type=OutputFolder(), help="Folder for the workbook.")
@shared("config", required=True, help="YAML with api and compare_index.")
def command(input_path: str, output_path: str, config: str) -> None:
    """Merge the tables of all ranks (csv or xlsx): one sheet per metric, one line per value, one column per rank."""
    from pathlib import Path

    from msprobe.compare.inputs.locations import local
    from msprobe.report.merge_ranks import merge_results

    merged = merge_results(Path(input_path), local(output_path), Path(config))
    for note in merged.notes:
        click.echo(note)
    lines = max(len(sheet) for sheet in merged.sheets.values())
    click.echo(f"Merged {len(merged.ranks)} ranks: {len(merged.sheets)} sheets of {lines} values")
    click.echo(f"Result: {merged.path}")
