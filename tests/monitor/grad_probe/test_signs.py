"""Signs in bits: what is written is read again, and how alike two gradients are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.monitor.grad_probe.signs import Signs, read_signs, similarity

VALUES = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=70)


@given(st.tuples(VALUES, VALUES))
def test_similarity_is_the_share_of_equal_signs_without_common_zeros(pair: tuple[list[float], list[float]]) -> None:
    length = min(map(len, pair))
    first, second = (np.array(values[:length]) for values in pair)
    compared = (first != 0) | (second != 0)
    expected = 1.0 if not compared.any() else float((np.sign(first) == np.sign(second))[compared].mean())
    assert similarity(Signs.of(first), Signs.of(second), length) == pytest.approx(expected)


def test_a_file_holds_an_eighth_of_a_byte_for_each_sign(tmp_path: Path) -> None:
    gradient = np.random.default_rng(0).standard_normal((30, 41))
    gradient[0] = 0
    Signs.of(gradient).write(tmp_path / "a.npy")
    assert (tmp_path / "a.npy").stat().st_size < 1230 / 4 + 150
    assert similarity(read_signs(tmp_path / "a.npy"), Signs.of(gradient), 1230) == 1.0


def test_files_of_the_published_tool_are_read(tmp_path: Path) -> None:
    gradient = np.array([[1.0, -2.0, 0.0], [4.0, 5.0, -6.0]])
    np.save(tmp_path / "a.npy", gradient > 0)
    published = read_signs(tmp_path / "a.npy")
    assert published.zero is None
    assert similarity(published, Signs.of(gradient), 6) == 1.0
    assert similarity(published, Signs.of(-gradient), 6) == pytest.approx(1 / 6)  # zero counts as not positive


def test_other_sizes_are_not_compared() -> None:
    assert similarity(Signs.of(np.ones(9)), Signs.of(np.ones(99)), 9) is None


@pytest.mark.parametrize("text", [b"", b"no array", np.ones(3).tobytes()])
def test_a_damaged_file_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(text)
    with pytest.raises(ReadError, match=r"a\.npy"):
        read_signs(tmp_path / "a.npy")


def test_another_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(ReadError, match="no signs"):
        read_signs(tmp_path / "a.npy")
