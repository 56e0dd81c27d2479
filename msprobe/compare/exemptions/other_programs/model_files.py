"""What a model file does not say of the calls of modules, beside a run of the program that it was exported from.

A file has nodes. The record of a module made of them has the value that enters it, the last one that leaves it, and the
weights that its nodes read (``offline_models/recorded_model.py``). Further arguments and results of the module, and
parameters that the exporter folded into others, are in the record of the program only: they are not judged.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.verdict import Ints, RowKind

_SIDES = "target", "golden run"


class ModelFiles(Exemption):
    """Excuses values of paired calls that only the program has, where the other side is the run of a model file."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the side that is a model file, if only one is."""
        sides = ["model_file" in dump.header for dump in (dumps.target, dumps.golden)]
        return replace(table, model_file=sides.index(True)) if sides.count(True) == 1 else table

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of values that the record of the other side alone has, and of arguments that are no tensors:
        a node has them as attributes."""
        paired = [row for number, pair in enumerate(table.entries) if pair.of_both for row in table.rows_of(number)]
        alone = (int(RowKind.MISSING_IN_GOLDEN), int(RowKind.MISSING_IN_TARGET), int(RowKind.ARGUMENT))
        rows = np.array(paired, np.int64)
        kinds[rows[np.isin(kinds[rows], alone)]] = RowKind.UNCHECKED

    def remarks(self, table: LeafTable) -> list[str]:
        """Return how many values the file does not have."""
        if table.model_file is None:
            return []
        own = (table.target, table.golden)[table.model_file]
        count = sum(
            own[row] is None
            for number, pair in enumerate(table.entries)
            if pair.of_both
            for row in table.rows_of(number)
        )
        side = _SIDES[table.model_file]
        return (
            [f"the {side} is a model file, which lacks {count} arguments, results and parameters of modules"]
            if count
            else []
        )
