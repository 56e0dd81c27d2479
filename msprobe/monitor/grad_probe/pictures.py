"""Draws the similarity of one parameter over the steps, with matplotlib where it is installed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msprobe.core.distribution import install_command
from msprobe.core.log import first_time, logger
from msprobe.core.store.safe_files import replacement_file


def draw_similarity(path: Path, name: str, steps: Sequence[int], values: Sequence[float | None]) -> bool:
    """Write the picture; return False, with one warning, where matplotlib is not installed.

    Raises:
        OSError: the picture cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        if first_time("matplotlib"):
            logger.warning("grad_probe: no pictures: matplotlib is not installed (%s)", install_command("plots"))
        return False
    figure: Any = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, [math.nan if value is None else value for value in values], marker="o", markersize=3)
    axes.set(title=name, xlabel="step", ylabel="share of equal signs", ylim=(-0.02, 1.02))
    axes.grid(True, alpha=0.3)
    with replacement_file(path) as file:
        FigureCanvasAgg(figure).print_png(file)
    return True
