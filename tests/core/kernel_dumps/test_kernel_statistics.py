"""The runtime's statistics, computed with numpy."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from msprobe.core.kernel_dumps.kernel_statistics import COLUMNS, measure

VALUES = np.array([[-1.5, 0.0, 2.0], [4.0, np.inf, -np.inf]], np.float32)


def test_counts() -> None:
    words = [name for name in COLUMNS if name.endswith("count")]
    assert measure(np.append(VALUES.ravel(), np.nan).astype(np.float32), "Float32", words) == {
        "Count": 7,
        "Negative Zero Count": 2,
        "Zero Count": 1,
        "Positive Zero Count": 3,
        "NaN Count": 1,
        "Negative Inf Count": 1,
        "Positive Inf Count": 1,
    }


def test_the_four_numbers() -> None:
    found = measure(VALUES[:1], "Float32", ["max", "min", "avg", "l2norm"])
    assert found == pytest.approx({"Max Value": 2.0, "Min Value": -1.5, "Avg Value": 0.5 / 3, "L2Norm Value": 2.5})


@pytest.mark.parametrize(("word", "column", "kind"), [("hash:md5", "MD5", "md5"), ("hash", "SHA1", "sha1")])
def test_hashes_are_of_the_stored_bytes(word: str, column: str, kind: str) -> None:
    assert measure(VALUES, "Float32", [word]) == {column: hashlib.new(kind, VALUES.tobytes()).hexdigest()}
    bits = np.array([0x3F80, 0xC000], np.uint16)
    widened = (bits.astype(np.uint32) << 16).view(np.float32)
    assert measure(widened, "BFloat16", [word]) == {column: hashlib.new(kind, bits.tobytes()).hexdigest()}


def test_integers_have_no_nan_and_an_empty_tensor_no_counts() -> None:
    assert measure(np.array([0, -3]), "Int64", ["nan count", "zero count"]) == {"NaN Count": 0, "Zero Count": 1}
    assert measure(np.zeros(0, np.float32), "Float32", ["max", "count", "zero count"]) == {
        "Max Value": None,
        "Count": 0,
        "Zero Count": None,
    }


def test_complex_tensors_have_no_counts() -> None:
    assert measure(np.array([1j]), "Complex128", ["zero count", "count"]) == {"Zero Count": None, "Count": 1}
