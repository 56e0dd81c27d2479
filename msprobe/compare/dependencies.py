"""Which entry each entry inherits noise from, beside its own inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.table import LeafTable


def dependencies(table: LeafTable) -> NDArray[np.int64]:
    """For each backward entry its forward entry, for parameter gradients the backward or forward entry of the
    module."""
    places: dict[tuple[str, str, int | None], int] = {}
    depends = np.full(len(table.entries), -1, np.int64)
    pending: list[tuple[int, tuple[str, str, int | None]]] = []
    for number in range(len(table.entries)):
        key = table.key(number)
        places[key.stem, key.phase, key.call] = number
        if key.phase == "backward":
            pending.append((number, (key.stem, "forward", key.call)))
        elif key.phase == "parameters_grad":
            pending.append((number, (key.stem, "backward", key.call or 0)))
    for number, wanted in pending:
        depends[number] = places.get(wanted, places.get((wanted[0], "forward", wanted[2]), -1))
    return depends
