"""``msprobe offline_dump``: runs a model file and records what every node of it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.offline import offline_flags, offline_options, show_run
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder

_DIFFERS = 1


@click.command("offline_dump")
@inputs(model_path="FILE")
@click.option("--model_path", type=click.Path(), required=True, help="The model, an .onnx file.")
@shared("output_path", type=OutputFolder(), default="./output", help="Folder for the dump.")
@click.option(
    "--task",
    type=click.Choice(["tensor", "statistics"]),
    default="tensor",
    show_default=True,
    help="Keep the elements of tensors, or their statistics alone.",
)
@offline_flags
def command(model_path: str, output_path: str, task: str, **options: Any) -> int:
    """Run an ONNX model on the CPU and record every node as a dump.

    msprobe compare reads the dump, beside one of the PyTorch program at level L0 or mix. Inputs that are not given are
    drawn. Exit status: 0 done, 1 the optimised run gives other results, 2 unreadable input.
    """
    from msprobe.jobs.model_files.compare_model import run_model

    differs = False
    for run in run_model(Path(model_path), Path(output_path), offline_options(options, task)):
        differs = show_run(run) or differs
    return _DIFFERS if differs else 0
