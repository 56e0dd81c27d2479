"""What a user adds to a comparison: metrics of whole tensors, learned noise to judge by, matrices to multiply with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compare.inputs.locations import opened
from msprobe.compare.inputs.mode import Mode
from msprobe.compare.rows.columns import columns
from msprobe.compare.rows.explanations import GOLDEN_STACKS, explained_columns

FileOption = str | os.PathLike[str] | None

if TYPE_CHECKING:
    from msprobe.compare.accepted import AcceptOption
    from msprobe.compare.differences.noise_profile import NoiseProfile
    from msprobe.compare.differences.whole_tensors import Calibration
    from msprobe.compare.rows.summary import AcceptedDifference
    from msprobe.numerics.metrics.user_metrics import Metric


@dataclass(frozen=True, slots=True)
class Extras:
    """What a user added.

    Attributes:
        metrics: returns the metrics, which get a column each; it is called only where whole tensors are compared.
        noise: replaces the tolerance of the number format where reruns showed another spread.
        calibration: multiplies tensors before they are compared.
        accepted: differences that make no run diverged.
    """

    metrics: Callable[[], Sequence[Metric]] = tuple
    noise: NoiseProfile | None = None
    calibration: Calibration | None = None
    accepted: tuple[AcceptedDifference, ...] = ()


def load_extras(
    metrics: Sequence[str] = (), noise: FileOption = None, config: FileOption = None, accept: AcceptOption = None
) -> Extras:
    """Load what the options name.

    Args:
        metrics: metrics as ``module:function``; those of installed packages are added.
        noise: the file of a noise profile.
        config: the file of a calibration.
        accept: the file of accepted differences, or its content.

    Everything named here is loaded at once. Without named metrics, installed packages are searched only when whole
    tensors are compared: the search opens the metadata of every package of the environment.

    Raises:
        ReadError: a file is missing or damaged.
        MsprobeException: a metric cannot be loaded, or its title is taken.
    """
    named = tuple(metrics)
    loaded = _metrics(named) if named else None
    load = partial(_metrics, ()) if loaded is None else partial(tuple, loaded)
    profile = None if noise is None else _profile(opened(noise))
    return Extras(load, profile, _calibration(config), _accepted(accept))


def _accepted(given: AcceptOption) -> tuple[AcceptedDifference, ...]:
    if given is None:
        return ()
    from msprobe.compare.accepted import read_accepted  # YAML, only where differences are accepted

    return read_accepted(given)


def _metrics(named: tuple[str, ...]) -> Sequence[Metric]:
    from msprobe.numerics.metrics.user_metrics import load_metrics

    reserved = (
        *columns(Mode.TENSOR, True),
        *columns(Mode.STATISTICS, True),
        *explained_columns(Mode.TENSOR),
        GOLDEN_STACKS,
    )
    return load_metrics(named, reserved)


def _calibration(file: FileOption) -> Calibration | None:
    if file is None:
        return None
    from msprobe.compare.differences.whole_tensors import read_calibration

    return read_calibration(file)


def _profile(path: Path) -> NoiseProfile:
    from msprobe.compare.differences.noise_profile import NoiseProfile

    return NoiseProfile.read(path)
