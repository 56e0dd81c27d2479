"""``msprobe run --config c.json -- python train.py``: collect from a training script, or watch it, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from msprobe.cli.options.asking import Asking, Missing
from msprobe.cli.options.shared import shared


def _missing(given: Mapping[str, Any]) -> Missing | None:
    if given["config"] is None and given["monitor"] is None:
        return "config", "give --config FILE (what to collect) or --monitor FILE (what to watch)"
    return None


@click.command(
    "run",
    cls=Asking,
    missing=_missing,
    context_settings={"allow_interspersed_args": False},
)
@shared("config", help="What to collect (.json, .yaml).")
@click.option("--monitor", metavar="FILE", help="What to watch (.json, .yaml): of TrainerMon or TrainerMonitorV2.")
@shared("model", help="Class of the only model; default: all that are called from outside any module.")
@click.option(
    "--first-step", type=click.IntRange(0), default=0, metavar="N", help="Number of the first step (resumed run)."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    config: str | None, monitor: str | None, model: str | None, first_step: int, command: tuple[str, ...]
) -> int:
    """Run COMMAND, and collect from the Python processes it starts (--config) or watch them (--monitor).

    Collecting starts at the first forward call of a model that is trained; each iteration of the training is a step.
    COMMAND is a program with its arguments, such as `python train.py --epochs 1` or `torchrun --nproc-per-node 2
    train.py`; a .py file alone is run with this Python. The exit status is that of COMMAND. A line at the end says
    when no step was recorded, and why.
    """
    import sys
    from pathlib import Path

    from msprobe.core.config import load_config
    from msprobe.jobs.programs.attached_program import attached_program
    from msprobe.jobs.programs.launcher import launch
    from msprobe.monitor.either_version import check

    settings = None if config is None else load_config(config)  # reports errors before the program starts
    if monitor is not None:
        check(monitor)
    files = {"config": config, "monitor": monitor}
    request: dict[str, Any] = {name: str(Path(file).absolute()) for name, file in files.items() if file is not None}
    request |= {"model": model} if model is not None else {}
    request |= {"first_step": first_step} if first_step else {}
    program = attached_program(command, request, "run")
    sys.stdout.flush()
    return launch(program, settings, monitor=monitor is not None)
