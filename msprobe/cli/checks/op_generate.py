"""``msprobe op_generate``: a script for one recorded call, to hand to who looks after the operator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from msprobe.cli.options.asking import Asking, Missing
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_CONFIG = "config_op.json"


def _missing(given: Mapping[str, Any]) -> Missing | None:
    path = given["dump"] or given["input_path"]
    if path is None:
        return "dump", "give a dump and --api, or a config_op.json with -i"
    return None if given["name"] is not None or _is_config(given["dump"], given["input_path"]) else ("name", "")


def _is_config(dump: str | None, input_path: str | None) -> bool:
    """Return whether what is given stands for a dump and the options; with -i it may have any name."""
    path = Path(str(dump or input_path))
    if dump is not None:
        return path.name == _CONFIG
    return path.name != "dump.json" and (path.is_file() or path.suffix == ".json")


@click.command("op_generate", cls=Asking, missing=_missing)
@click.argument("dump", metavar="DUMP|CONFIG", required=False, type=click.Path())
@shared("input_path", help="A file as config_op.json, in place of DUMP and --api; or DUMP.", metavar="CONFIG")
@click.option("--api", "name", metavar="NAME", help="The call, such as Functional.linear.0.")
@click.option("--backward", is_flag=True, help="Judge its gradients too.")
@click.option("--draw", is_flag=True, help="Draw the inputs in the script, in place of a file beside it.")
@click.option("--pytest", is_flag=True, help="Write a test for pytest.")
@shared("output_path", default="./", type=OutputFolder(), help="Folder for the script.")
def command(dump: str | None, input_path: str | None, output_path: str, **options: Any) -> None:
    """Write a script that runs one call of DUMP again and judges it; it needs the framework alone, and not msprobe.

    A file of the name config_op.json stands for a dump and the options. Run the script with a device: python SCRIPT
    npu:0. Its exit status is 1 where the results are wrong.
    """
    from msprobe.jobs.single_script import make_script
    from msprobe.single_call.request import ScriptRequest, call_name, read_request

    path = Path(str(input_path if dump is None else dump))
    if dump is not None and input_path is not None:
        raise click.UsageError("give a dump and --api, or a config_op.json with -i")
    if options["name"] is None:
        request = read_request(path, options["pytest"])
    else:
        name, real = call_name(options["name"]), not options["draw"]
        request = ScriptRequest(path, name, options["backward"], real, pytest=options["pytest"])
    click.echo(f"Script: {make_script(request, Path(output_path))}")
