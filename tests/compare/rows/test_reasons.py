"""What a sentence says adds up: the difference it names is so many times what it says was allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import msprobe
from msprobe.jobs.compare import CompareResult
from tests.compare.dumps import call, tensor, write

SENTENCE = re.compile(r"(\S.*) differs by (\S+) of the tensor's scale, (\S+) times the (\S+) allowed")


def _compare(folder: Path, **changed: float) -> CompareResult:
    values = {"Max": 2.0, "Min": -1.5, "Mean": 0.1, "Norm": 40.0}
    for name, own in (("t", values | changed), ("g", values)):
        data = {"Torch.sin.0.forward": call([tensor()], [tensor(shape=(64, 64)) | own])}
        write(folder / name, data)
    return msprobe.compare(folder / "t", folder / "g")


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"Max": 2.1}, "largest element"),
        ({"Mean": 0.2}, "mean"),
        ({"Norm": 41.0}, "norm"),
        ({"Max": 2.00004, "Norm": 40.0005}, "norm"),
        ({"Max": 2.0001, "Mean": 0.1000099}, "mean"),
    ],
    ids=["element", "mean", "norm", "more_in_element_norm_decides", "more_in_element_mean_decides"],
)
def test_the_part_that_decides_is_told(tmp_path: Path, changed: dict[str, float], part: str) -> None:
    found = _compare(tmp_path, **changed).summary.first_divergence
    assert found is not None
    match = SENTENCE.search(found.reason)
    assert match is not None, found.reason
    assert match[1].endswith(part)
    assert float(match[2]) == pytest.approx(float(match[3]) * float(match[4]), rel=0.05)
    assert found.times_tolerance == pytest.approx(float(match[3]), rel=0.01)
