"""Flags of the commands that run model files, as the published tool has them, and what is told of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from msprobe.cli.options.shared import shared

if TYPE_CHECKING:
    from msprobe.jobs.model_files.compare_model import OfflineOptions, OfflineRun

Command = TypeVar("Command", bound=Callable[..., Any])

_FLAGS = (
    click.option(
        "--input_data", metavar="FILE,...", help="The inputs of the model in its order: .npy, .bin or .pt files."
    ),
    click.option("--input_shape", metavar="NAME:1,3,224;...", help="Shapes of inputs whose sizes may vary."),
    click.option(
        "--dym_shape_range",
        metavar="NAME:1,3,200~224;...",
        help="Run once for each shape, a step each: a~b for all sizes from a to b, a-b for these two.",
    ),
    click.option("--output_size", metavar="N,...", help="Accepted; onnxruntime finds the sizes of outputs by itself."),
    click.option(
        "-ofs",
        "--onnx_fusion_switch",
        type=click.Choice(["true", "false"], case_sensitive=False),
        default="false",
        show_default=True,
        help="Let onnxruntime join and move nodes while they are recorded.",
    ),
)
NAMES = ("input_data", "input_shape", "dym_shape_range", "output_size", "onnx_fusion_switch")
"""The keywords of the flags."""


def offline_flags(command: Command) -> Command:
    """Add the flags and ``--rank`` to a command and return it."""
    rank = shared(
        "rank",
        type=click.IntRange(0, 255),
        multiple=False,
        callback=None,
        metavar="N",
        default=0,
        show_default=True,
        help="The number of the rank folder.",
    )
    return model_flags(rank(command))


def model_flags(command: Command) -> Command:
    """Add the flags to a command that has a ``--rank`` of its own, and return it."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


def offline_options(options: dict[str, Any], task: str = "tensor", rank: int = 0) -> OfflineOptions:
    """Return the values of the flags."""
    from msprobe.jobs.model_files.compare_model import OfflineOptions

    files = tuple(Path(word.strip()) for word in (options["input_data"] or "").split(",") if word.strip())
    return OfflineOptions(
        files,
        options["input_shape"] or "",
        options["dym_shape_range"] or "",
        task,
        options.get("rank") or rank,
        options["onnx_fusion_switch"].lower() == "true",
    )


def show_run(run: OfflineRun) -> bool:
    """Print what was recorded; return whether the optimised run gives other results."""
    shapes = ", ".join(f"{name} {list(shape)}" for name, shape in run.shapes.items())
    click.echo(f"Recorded: {run.recorded.nodes} nodes with {shapes or 'no inputs'}")
    if run.recorded.inner_nodes:
        click.echo(f"Not recorded: {run.recorded.inner_nodes} nodes inside of branches and loops")
    wrong = {name: verdict for name, verdict in run.optimized.items() if verdict.level != "pass"}
    for name, verdict in wrong.items():
        click.echo(f"With onnxruntime's optimisations the output {name} is another one: {verdict.reason}")
    if run.optimized and not wrong:
        click.echo(f"With onnxruntime's optimisations: the same {len(run.optimized)} outputs")
    click.echo(f"Result: {run.recorded.folder}")
    return bool(wrong)
