"""Properties of the metrics: identity, NaN handling, formulas against plain numpy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from msprobe.core.tensors.dtypes import ALL_DTYPES, DType, DtypeKind, mindspore_name
from msprobe.numerics.metrics.statistics import difference_cells, shown
from msprobe.numerics.metrics.tensor import tensor_difference
from msprobe.numerics.tolerance import unit_roundoff

SHAPES = npst.array_shapes(max_dims=3, max_side=5)
ANY = npst.arrays(np.float32, SHAPES, elements=st.floats(width=32))


@given(ANY)
def test_a_tensor_never_differs_from_itself(values: np.ndarray) -> None:
    found = tensor_difference(values, values.copy())
    assert (found.relative_norm, found.relative_max, found.problem) == (0.0, 0.0, "")


@given(ANY, st.data())
def test_a_non_finite_value_on_one_side_is_seen_on_both(values: np.ndarray, data: st.DataObject) -> None:
    clean = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0)
    broken = clean.copy()
    at = data.draw(st.integers(0, clean.size - 1))
    broken.flat[at] = data.draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    assert tensor_difference(broken, clean).non_finite and tensor_difference(clean, broken).non_finite


def test_infinities_of_opposite_sign_differ() -> None:
    assert tensor_difference(np.array([np.inf, 1.0]), np.array([-np.inf, 1.0])).non_finite


def test_formulas() -> None:
    n, b = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.1, 4.004])
    cosine, euclid, largest, relative, one, five = tensor_difference(n, b).cells
    assert cosine == pytest.approx(float(n @ b / np.linalg.norm(n) / np.linalg.norm(b)), abs=1e-11)
    assert euclid == pytest.approx(np.linalg.norm(n - b))
    assert largest == pytest.approx(0.1) and relative == pytest.approx(0.1 / 2.1)
    assert (one, five) == pytest.approx((2 / 3, 2 / 3))


ONE_ELEMENT: dict[str, tuple[float, float, object, object]] = {
    "nan": (math.nan, math.nan, "Nan", "Nan"),
    "infinity": (math.inf, math.inf, "Nan", "Nan"),
    "signs": (math.inf, -math.inf, math.inf, "Nan"),
    "target_nan": (math.nan, 1.0, "Nan", "Nan"),
    "golden_nan": (1.0, math.nan, "Nan", "Nan"),
    "target_infinite": (math.inf, 1.0, math.inf, math.inf),
    "golden_infinite": (1.0, math.inf, math.inf, "Nan"),
}


@pytest.mark.parametrize("shape", [(), (1, 1)], ids=["0-d", "1x1"])
@pytest.mark.parametrize("case", list(ONE_ELEMENT))
def test_one_element_that_is_not_finite(case: str, shape: tuple[int, ...]) -> None:
    """The cells are those of mindstudio-probe 26.2.0; equal ones are no difference all the same."""
    target, golden, largest, relative = ONE_ELEMENT[case]
    found = tensor_difference(np.full(shape, target, np.float32), np.full(shape, golden, np.float32))
    assert found.cells == ("unsupported", "unsupported", largest, relative, "unsupported", "unsupported")
    assert found.non_finite == (case not in ("nan", "infinity"))


def test_shape_and_unit_axes() -> None:
    assert tensor_difference(np.ones((1, 4)), np.ones(4)).problem == ""
    assert tensor_difference(np.ones(3), np.ones(4)).cells == ("shape unmatched",) * 6


@given(st.floats(), st.floats())
def test_statistics_cells_never_hide_a_difference(left: float, right: float) -> None:
    difference, relative = difference_cells(shown(left), shown(right))
    same = left == right or (left != left and right != right)
    if not same:
        assert difference != 0 and relative != 0
    elif str(left) == str(right):
        assert (difference, relative) == (0, 0)


@pytest.mark.parametrize(("dtype", "bits"), [("torch.float32", 24), ("torch.bfloat16", 8), ("Float16", 11)])
def test_unit_roundoff(dtype: str, bits: int) -> None:
    assert unit_roundoff(dtype) == 2.0**-bits


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_every_dtype_has_the_roundoff_of_its_digits_however_it_is_spelled(dtype: DType) -> None:
    expected = 2.0**-dtype.digits if dtype.kind in (DtypeKind.FLOAT, DtypeKind.COMPLEX) else 0.0
    assert unit_roundoff(dtype.name) == expected
    assert unit_roundoff(f"torch.{dtype.name}") == unit_roundoff(mindspore_name(dtype)) == expected


def test_integers_have_no_roundoff() -> None:
    assert unit_roundoff("torch.int64") == unit_roundoff("<class 'str'>") == 0.0
