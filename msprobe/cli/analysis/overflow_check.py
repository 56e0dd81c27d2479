"""``msprobe overflow_check`` (older name ``nan_analyze``): names the call that made the first NaN of all ranks."""

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_FOUND = 1


@click.command("overflow_check")
@inputs(input_path="DUMP")
@shared("input_path", required=True, help="Step folder of a dump.")
@shared("output_path", default="./output", type=OutputFolder(), help="Folder for the result document.")
@shared("fail_on", type=click.Choice(["never", "found"]))
@shared("run")
def command(input_path: str, output_path: str, fail_on: str, run: str | None) -> int:
    """Name the call that made the first NaN or infinity.

    DUMP is a step folder with its rank folders, one process folder, or a dump root with several steps; or the URL
    of one. Exit status: 0 done, 1 found (with --fail-on found), 2 unreadable input, 3 the dump holds no statistics.
    """
    from msprobe.analyze.overflow import check_overflow, write_document
    from msprobe.compare.inputs.locations import local

    folder, finding = local(output_path), check_overflow(input_path, run)
    for line in finding.lines:
        click.echo(line)
    if not finding.found:
        return 0
    click.echo(f"Result: {write_document(finding.document(), folder, 'anomaly_analyze')}")
    return _FOUND if fail_on == "found" else 0


nan_analyze = click.Command("nan_analyze", callback=command.callback, params=command.params, help=command.help)
