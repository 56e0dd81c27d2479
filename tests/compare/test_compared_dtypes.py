"""Tensors of every dtype are judged by its precision, whichever framework's name the dump has for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.noise_learning import learn
from msprobe.core.tensors.dtypes import ALL_DTYPES, DType, mindspore_name
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

SPELLINGS = [
    pytest.param(dtype, name, id=name)
    for dtype in ALL_DTYPES
    for name in (f"torch.{dtype.name}", mindspore_name(dtype))
]


def _dump(folder: Path, spelling: str, scale: float) -> Path:
    """A dump of one call; ``scale`` changes the norm of its result."""
    result: dict[str, Any] = tensor(shape=(32,)) | {"dtype": spelling}
    result["Norm"] *= scale
    write(folder, {"Torch.relu.0.forward": call([tensor(shape=(32,)) | {"dtype": spelling}], [result])})
    return folder


@pytest.mark.parametrize(("dtype", "spelling"), SPELLINGS)
def test_a_difference_is_judged_by_the_digits_of_the_dtype(dtype: DType, spelling: str, tmp_path: Path) -> None:
    roundoff = 2.0**-dtype.digits if dtype.digits else 0.0
    golden = _dump(tmp_path / "golden", spelling, 1.0)
    rounding = _dump(tmp_path / "rounding", spelling, 1.0 + 0.1 * roundoff)
    wrong = _dump(tmp_path / "wrong", spelling, 1.0 + 200.0 * max(roundoff, 1e-6))
    assert compare(rounding, golden).verdict == "same"
    assert compare(wrong, golden).verdict == "diverged"


@pytest.mark.parametrize("spelling", ["torch.float8_e4m3fn", "Float8E4M3FN", "torch.float8_e4m3fnuz"])
def test_the_names_of_one_precision_have_one_verdict(spelling: str, tmp_path: Path) -> None:
    golden = _dump(tmp_path / "golden", spelling, 1.0)
    assert compare(_dump(tmp_path / "target", spelling, 1.0 + 1e-4), golden).verdict == "same"


@pytest.mark.parametrize("spelling", ["torch.float8_e4m3fn", "Float8E4M3FN", "torch.float8_e4m3fnuz"])
def test_a_noise_profile_holds_the_spread_of_eight_bit_floats(spelling: str, tmp_path: Path) -> None:
    reruns = [_dump(tmp_path / str(number), spelling, scale) for number, scale in enumerate((1.0, 1.01))]
    spreads = [spread for spread in learn(reruns).profile.spreads if spread.role == "output"]
    assert [spread.dtype for spread in spreads] == [spelling]
    assert spreads[0].norm > 0.0
