"""``python -m msprobe.core.monitor.anomaly_processor``: the first alerts of all ranks of a monitored training."""

from __future__ import annotations

import json
from typing import Any

import click

from msprobe.cli.options.inputs import inputs
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import OutputFolder


class Steps(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """A list of steps as text: ``[1, 2]``."""

    name = "steps"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers of a JSON list."""
        try:
            steps = value if isinstance(value, list) else json.loads(value)
        except ValueError:
            steps = None
        if not isinstance(steps, list) or not all(type(step) is int for step in steps):
            self.fail(f'{value!r}: give a list of steps such as "[1, 2]"', param, ctx)
        return steps


@click.command("anomaly_processor")
@inputs(folder="DIR")
@click.option("-d", "--data_path", "folder", type=click.Path(), required=True, help="A folder anomaly_detected.")
@shared("output_path", type=OutputFolder(), show_default="the folder of -d", help="Folder for anomaly_analyse.json.")
@click.option("-k", "--topk", "most", type=click.IntRange(1), default=8, show_default=True, help="How many alerts.")
@click.option("-s", "--step", "steps", type=Steps(), default="[]", show_default=True, help="Only these steps.")
def command(folder: str, output_path: str | None, most: int, steps: list[int]) -> int:
    """Write and print the first alerts of all ranks.

    Exit status: 0 done, 2 unreadable input.
    """
    from pathlib import Path

    from msprobe.monitor.alerts.anomaly_analysis import RESULT, analyse

    output = Path(output_path) if output_path else Path(folder)
    for number, alert in enumerate(analyse(Path(folder), output, most, steps).values()):
        click.echo(f"{number}: {alert['message']}")
    click.echo(f"Result: {output / RESULT}")
    return 0


def main() -> None:
    """Run the command as a program of its own."""
    import sys

    from msprobe.cli.main import run

    sys.exit(run(["anomaly_processor", *sys.argv[1:]]))
