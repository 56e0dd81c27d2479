"""``msprobe run_overflow_check``: recorded calls that overflow, run again on the device and on the CPU."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from msprobe.cli.checks.options import API_INFO, TIMEOUT
from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_FAILED = 1


@click.command("run_overflow_check")
@inputs(api_info="DUMP")
@API_INFO
@shared("output_path", default="./", type=OutputFolder(), older=("--out_path",), help="Folder for the results.")
@click.option("-d", "--device", default="best", metavar="DEVICE", help="Device under test. Default: the best one here.")
@click.option("-j", "--jit_compile", "--jit-compile", "jit", is_flag=True, help="Compile operators (NPU only).")
@TIMEOUT
@shared("fail_on", type=click.Choice(["never", "abnormal"]), help="When to end with exit status 1.")
def command(api_info: str, output_path: str, device: str, jit: bool, timeout: float, fail_on: str) -> int:
    """Tell which recorded overflows are normal: those that the CPU has too, with the same inputs.

    Exit status: 0 done, 1 the device alone overflows (with --fail-on), 2 wrong usage or unreadable input, 3 no
    recorded call overflows.
    """
    from msprobe.core.log import logger
    from msprobe.jobs.overflow_rerun import rerun_overflows
    from msprobe.jobs.progress import progress_bar

    if jit:
        logger.warning("-j compiles operators on an NPU; it does nothing here")
    with progress_bar("running again", "calls") as show:
        found = rerun_overflows(Path(api_info), Path(output_path), device, seconds=timeout, show=show)
    for call in found.calls:
        click.echo(f"{call.name}: forward {call.forward}, backward {call.backward}: {call.message or 'nothing to say'}")
    counts = Counter("abnormal" if call.is_abnormal else "others" for call in found.calls)
    click.echo(f"Ran {len(found.calls)} calls again on {found.device}: {counts['abnormal']} abnormal")
    click.echo(f"Result: {found.table}")
    click.echo(f"Details: {found.document}")
    return _FAILED if counts["abnormal"] and fail_on == "abnormal" else 0
