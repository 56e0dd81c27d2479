"""``msprobe merge_result``: puts the result tables of many ranks side by side in one workbook."""

import click

from msprobe.cli.option_types import OutputFolder


@click.command("merge_result")
@click.option("-i", "--input_dir", "--input-dir", required=True, type=click.Path(), help="Output of msprobe compare.")
@click.option(
    "-o",
    "--output_dir",
    "--output-dir",
    default="./output",
    show_default=True,
    type=OutputFolder(),
    help="Folder for the workbook.",
)
@click.option(
    "-config", "--config-path", "config", required=True, type=click.Path(), help="YAML with api and compare_index."
)
def command(input_dir: str, output_dir: str, config: str) -> None:
    """Merge the tables of all ranks (csv or xlsx): one sheet per metric, one line per value, one column per rank."""
    from pathlib import Path

    from msprobe.compare.inputs.locations import local
    from msprobe.report.merge_ranks import merge_results

    merged = merge_results(Path(input_dir), local(output_dir), Path(config))
    for note in merged.notes:
        click.echo(note)
    lines = max(len(sheet) for sheet in merged.sheets.values())
    click.echo(f"Merged {len(merged.ranks)} ranks: {len(merged.sheets)} sheets of {lines} values")
    click.echo(f"Result: {merged.path}")
