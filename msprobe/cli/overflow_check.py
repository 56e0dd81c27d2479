"""``msprobe overflow_check`` (older name ``nan_analyze``): names the call that made the first NaN of all ranks."""

import click

from msprobe.cli.option_types import OutputFolder

_FOUND = 1


@click.command("overflow_check")
@click.option("-i", "--input_path", "--input-path", required=True, type=click.Path(), help="Step folder of a dump.")
@click.option(
    "-o",
    "--output_path",
    "--output-path",
    default="./output",
    show_default=True,
    type=OutputFolder(),
    help="Folder for the result document.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["never", "found"]),
    default="never",
    show_default=True,
    help="When to end with exit status 1.",
)
def command(input_path: str, output_path: str, fail_on: str) -> int:
    """Name the call that made the first NaN or infinity.

    The input is a step folder with its rank folders, one process folder, or a dump root with several steps; or the URL
    of one. Exit status: 0 done, 1 found (with --fail-on found), 2 unreadable input, 3 the dump holds no statistics.
    """
    from msprobe.analyze.overflow import check_overflow, write_document
    from msprobe.compare.inputs.locations import local

    folder, finding = local(output_path), check_overflow(input_path)
    for line in finding.lines:
        click.echo(line)
    if not finding.found:
        return 0
    click.echo(f"Result: {write_document(finding.document(), folder, 'anomaly_analyze')}")
    return _FOUND if fail_on == "found" else 0


nan_analyze = click.Command("nan_analyze", callback=command.callback, params=command.params, help=command.help)
