"""``msprobe op_generate``: a script for one recorded call, to hand to who looks after the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder


@click.command("op_generate")
@click.argument("dump", required=False, type=click.Path())
@shared("input_path", help="The file config_op.json, in place of DUMP and --api.", metavar="CONFIG")
@click.option("--api", "name", metavar="NAME", help="The call, such as Functional.linear.0.")
@click.option("--backward", is_flag=True, help="Judge its gradients too.")
@click.option("--draw", is_flag=True, help="Draw the inputs in the script, in place of a file beside it.")
@click.option("--pytest", is_flag=True, help="Write a test for pytest.")
@shared("output_path", default="./", type=OutputFolder(), help="Folder for the script.")
def command(dump: str | None, input_path: str | None, output_path: str, **options: Any) -> None:
    """Write a script that runs one call of DUMP again and judges it; it needs the framework alone, and not msprobe.

    Run it with a device: python SCRIPT npu:0. Its exit status is 1 where the results are wrong.
    """
    from msprobe.jobs.single_script import make_script
    from msprobe.single_call.request import ScriptRequest, call_name, read_request

    if (dump is None) == (input_path is None):
        raise click.UsageError("give a dump and --api, or a config_op.json with -i")
    if dump is not None:
        name, real = call_name(options["name"] or ""), not options["draw"]
        request = ScriptRequest(Path(dump), name, options["backward"], real, pytest=options["pytest"])
    else:
        request = read_request(Path(str(input_path)), options["pytest"])
    click.echo(f"Script: {make_script(request, Path(output_path))}")
