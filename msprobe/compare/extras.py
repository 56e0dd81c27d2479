"""What a user adds to a comparison: metrics of whole tensors, and a learned spread to judge by."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.compare.columns import columns
from msprobe.compare.explained import explained_columns
from msprobe.compare.mode import Mode
from msprobe.compare.noise_profile import NoiseProfile
from msprobe.numerics.metrics.custom import Metric, load_metrics


@dataclass(frozen=True, slots=True)
class Extras:
    """``metrics`` have a column each; ``noise`` replaces the tolerances of the number format where it knows better."""

    metrics: Sequence[Metric] = ()
    noise: NoiseProfile | None = None


def load_extras(metrics: Sequence[str] = (), noise: str | os.PathLike[str] | None = None) -> Extras:
    """The metrics of installed packages and those named here, and the profile in the file ``noise``.

    Raises:
        ReadError: the noise file is missing or damaged.
        MsprobeException: a metric cannot be loaded, or its title is taken.
    """
    reserved = (*columns(Mode.TENSOR, True), *columns(Mode.STATISTICS, True), *explained_columns(Mode.TENSOR))
    profile = None if noise is None else NoiseProfile.read(Path(noise))
    return Extras(load_metrics(metrics, reserved), profile)
