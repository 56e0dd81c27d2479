"""What a comparison left out, in sentences to stand beside its verdict: what one side lacks as a whole, and values that
could not be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from msprobe.compare.lone_direction import lone_directions
from msprobe.compare.not_compared import not_compared
from msprobe.compare.recomputed import recompute_notes
from msprobe.compare.recorded_levels import level_notes

if TYPE_CHECKING:
    from msprobe.compare.run import Comparison


def incomplete(comparison: Comparison) -> list[str]:
    """The sentences; empty where everything was compared."""
    table = comparison.table
    found = level_notes(table) + not_compared(comparison) + recompute_notes(table)
    if table.loose:
        from msprobe.compare.lost_layers import functions_alone  # only where two programs are compared

        found += lone_directions(table.entries, table.keys, np.diff(table.starts).tolist())
        found += table.unjoined + functions_alone(table)
    return found
