"""Choose between several ways to cut a pair of tensors to the rows of a request.

Shapes do not tell them apart where both batches are as long as a width, or as the number of heads: the values do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.inputs.slices import cut_tensor
from msprobe.compare.requests.token_axes import Part
from msprobe.core.errors import ReadError
from msprobe.core.store.record_walk import Leaf
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.trace.leaves import data_name

Array = NDArray[Any]
_ALIKE = 1e-3
"""A way to cut two tensors whose parts are as close is taken for the right one, in units of the largest element."""


def chosen_part(
    choices: Sequence[Part], leaves: tuple[Leaf | None, Leaf | None], folders: tuple[Path, Path]
) -> Part | None:
    """Return the way to cut a pair of tensors; None where it is not known.

    Of several, the values tell: the one with most elements whose parts are alike, else that whose parts are closest.
    """
    if len(choices) == 1:
        return choices[0]
    target, golden = (read_recorded(leaf, folder) for leaf, folder in zip(leaves, folders, strict=True))
    if target is None or golden is None:
        return None
    cut = [(cut_tensor(target, part.ranges[0]), cut_tensor(golden, part.ranges[1])) for part in choices]
    apart = [_distance(*pair) for pair in cut]
    alike = [number for number, one in enumerate(apart) if one <= _ALIKE]
    if alike:
        return choices[max(alike, key=lambda number: cut[number][0].size)]
    return choices[min(range(len(choices)), key=lambda number: apart[number])]


def _distance(target: Array, golden: Array) -> float:
    """Return the largest difference of two tensors in units of the largest element."""
    left, right = np.squeeze(target).astype(np.float64), np.squeeze(golden).astype(np.float64)
    if left.shape != right.shape:
        return float("inf")
    largest = max(float(np.abs(side).max(initial=0.0)) for side in (left, right))
    difference = np.where(left == right, 0.0, np.abs(left - right))
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0)) / (largest or 1.0)


def read_recorded(leaf: Leaf | None, folder: Path) -> Array | None:
    """Return a recorded tensor; None where it has no readable file of numbers."""
    name = None if leaf is None else data_name(leaf.raw)
    if name is None or Path(name).name != name:
        return None
    try:
        array = read_tensor(folder / name)
    except ReadError:
        return None
    return array if array.dtype.kind in "fiub" else None
