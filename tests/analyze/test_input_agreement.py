"""The tool says how sure it is that the inputs of the named call agree."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

SURE = "its inputs agree"


@pytest.mark.parametrize(
    ("function", "dtype", "apart", "words"),
    [
        ("Torch.topk", "float32", 1e-7, "it chooses between values"),
        ("Functional.softmax", "bfloat16", 2e-3, "an earlier call may have made a part of it"),
        ("Functional.softmax", "float32", 1e-7, SURE),
        ("Torch.topk", "float32", 0.0, SURE),
        ("Functional.gelu", "bfloat16", 0.0, SURE),
    ],
)
def test_rounding_of_the_inputs_is_said(tmp_path: Path, function: str, dtype: str, apart: float, words: str) -> None:
    for side, factor, result in (("t", 1.0 + apart, 3.0), ("g", 1.0, 2.0)):
        own = call([tensor(factor, dtype=dtype)], [tensor(result, dtype=dtype)])
        write(tmp_path / side, {f"{function}.0.forward": own})
    found = msprobe.compare(tmp_path / "t", tmp_path / "g").summary.first_divergence
    assert found is not None and words in found.reason
    assert (words == SURE) == (f"; {SURE}, as far as these statistics tell" in found.reason)
