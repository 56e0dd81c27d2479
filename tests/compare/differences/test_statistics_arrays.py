"""Statistics, and what follows from dtype and shape, as arrays: one integer tensor among floats changes nothing."""

import math
from pathlib import Path

import numpy as np

from msprobe.compare.alignment.by_name import SequenceMatch
from msprobe.compare.differences.statistics_arrays import properties, statistics
from msprobe.compare.table.table import LeafTable, build_table
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, tensor, write

COUNTS = tensor(shape=(6,), dtype="int64", Max=5, Min=0, Mean=2, Norm=None)
DAMAGED = tensor(1.0, shape=(4, 8)) | {"shape": [4, [8]]}


def table(folder: Path) -> LeafTable:
    for side, scale in (("t", 2.0), ("g", 1.0)):
        inputs = [tensor(scale), COUNTS, tensor(scale, shape=(2,), dtype="bfloat16"), DAMAGED]
        write(folder / side, {"Functional.relu.0.forward": call(inputs, [tensor(scale)])})
    left, right = (load_dump(find_dumps(folder / side)[0]) for side in "tg")
    return build_table(left, right, SequenceMatch())


def test_statistics_of_floats_and_integers(tmp_path: Path) -> None:
    found = table(tmp_path)
    (left, left_absent), (right, _) = statistics(found, np.arange(found.row_count))
    assert left[0].tolist() == [4.0, -3.0, 0.2, 10.0] and right[0].tolist() == [2.0, -1.5, 0.1, 5.0]
    assert left[1, :3].tolist() == [5.0, 0.0, 2.0] and math.isnan(left[1, 3])
    assert left_absent.nonzero()[0].tolist() == [1] and left_absent.nonzero()[1].tolist() == [3]


def test_properties_of_floats_and_integers(tmp_path: Path) -> None:
    found = table(tmp_path)
    roundoff, numel, longest = properties(found, np.arange(found.row_count))
    assert numel.tolist() == [32.0, 6.0, 2.0, 4.0, 32.0] and longest.tolist() == [8.0, 6.0, 2.0, 4.0, 8.0]
    assert roundoff[[0, 2]].tolist() == [2.0**-24, 2.0**-8]
