"""``msprobe api_precision_compare``: what acc_check measured on two devices, judged by the published standards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_FAILED = 1
_MOST_SHOWN = 10


@click.command("api_precision_compare")
@inputs(target="TARGET_CSV", other="OTHER_CSV")
@click.option(
    "-npu",
    "--npu_csv_path",
    "--npu-csv-path",
    "target",
    required=True,
    type=click.Path(),
    help="Table of details that acc_check wrote on the device under test.",
)
@click.option(
    "-gpu",
    "--gpu_csv_path",
    "--gpu-csv-path",
    "other",
    required=True,
    type=click.Path(),
    help="Table of details of the device to compare with.",
)
@shared("output_path", default="./", type=OutputFolder(), older=("--out_path",), help="Folder for the tables.")
@shared("fail_on", type=click.Choice(["never", "error"]), help="When to end with exit status 1: for an error.")
def command(target: str, other: str, output_path: str, fail_on: str) -> int:
    """Judge each result of one device by that of another one, both measured against float64 by acc_check.

    The standard is chosen by the function and the dtype, as published. Exit status: 0 done, 1 an error (with
    --fail-on), 2 wrong usage or a table that cannot be read.
    """
    from msprobe.precheck.device_comparison import compare_devices

    found = compare_devices(Path(target), Path(other), Path(output_path))
    wrong = [call for call in found.calls if str(call.status) == "error"]
    for call in wrong[:_MOST_SHOWN]:
        click.echo(f"error: {call.name}: {'; '.join(call.messages)}")
    if len(wrong) > _MOST_SHOWN:
        click.echo(f"... and {len(wrong) - _MOST_SHOWN} more in the table")
    counts = Counter(str(call.status) for call in found.calls)
    click.echo(f"Judged {len(found.calls)} calls: {', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}")
    click.echo(f"Result: {found.result}")
    click.echo(f"Details: {found.details}")
    return _FAILED if wrong and fail_on == "error" else 0
