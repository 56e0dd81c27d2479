"""What the gradient probe keeps of one gradient of MindSpore."""

from __future__ import annotations

from typing import Any

import numpy as np

from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps, numbers_of
from msprobe.core.config.sections import GradProbeSection
from msprobe.core.tensors.checksums import crc32
from msprobe.monitor.grad_probe.files import GradientFacts
from msprobe.monitor.grad_probe.signs import Signs


def gradient_facts(name: str, gradient: Any, section: GradProbeSection) -> GradientFacts:
    """Return statistics, and by the level a checksum, signs, or shares of intervals."""
    level, shape = section.grad_level, tuple(gradient.shape)
    measure = MindSporeTensorOps(precision="high")
    node = measure.describe(gradient, True)
    measure.settle()
    array = numbers_of(gradient)
    if array is None:
        return GradientFacts(name, shape, None, None, None)
    plain = np.ascontiguousarray(array, np.float32)
    statistics = node.get("Max"), node.get("Min"), node.get("Norm")
    checksum = crc32(plain.reshape(-1).view(np.uint8)) if level == "L0" else ""
    signs = None if level == "L0" else Signs.of(plain)
    return GradientFacts(
        name, shape, *statistics, checksum, signs, _shares(plain, section.bounds) if level == "L2" else ()
    )


def _shares(gradient: Any, bounds: tuple[float, ...]) -> tuple[float, ...]:
    """Return the share of elements in each interval, the right end included, then that of zeros."""
    if not gradient.size:
        return (0.0,) * (len(bounds) + 2)
    places = np.searchsorted(np.asarray(bounds, np.float32), gradient.reshape(-1), side="left")
    counts = np.bincount(places, minlength=len(bounds) + 1)
    return tuple(count / gradient.size for count in (*counts.tolist(), int((gradient == 0).sum())))
