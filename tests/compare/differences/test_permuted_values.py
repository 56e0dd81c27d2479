"""A permutation leaves all four statistics as they are; the projection shows it, where both sides have one."""

from pathlib import Path

import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

CASES = {
    "another_order": ({"Projection": 1.0}, {"Projection": 3.0}, "diverged"),
    "the_same_order": ({"Projection": 1.0}, {"Projection": 1.0}, "same"),
    "rounding": ({"Projection": 1.0}, {"Projection": 1.0 + 1e-7}, "same"),
    "one_side_only": ({"Projection": 1.0}, {}, "same"),
    "without_value": ({"Projection": None}, {"Projection": 1.0}, "same"),
}


def test_a_tensor_that_may_be_expanded_from_fewer_elements_lacks_nothing(tmp_path: Path) -> None:
    for side, order in (("target", None), ("golden", 1.0)):
        big = tensor(shape=(1024, 1024), Projection=order)
        write(tmp_path / side, {"Torch.abs.0.forward": call([tensor()], [big])})
    assert not compare(tmp_path / "target", tmp_path / "golden").summary.reason


@pytest.mark.parametrize("case", list(CASES))
def test_order_of_the_elements(case: str, tmp_path: Path) -> None:
    ours, theirs, verdict = CASES[case]
    for side, more in (("target", ours), ("golden", theirs)):
        write(tmp_path / side, {"Torch.roll.0.forward": call([tensor()], [tensor(**more)])})
    result = compare(tmp_path / "target", tmp_path / "golden")
    assert result.verdict == verdict
    if verdict == "diverged":
        found = result.summary.first_divergence
        assert found is not None and "the order of the elements" in found.reason
