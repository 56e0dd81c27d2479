"""What every ``TensorOps`` must do: the statistics of the oracle, checksums of the bytes, files that read back."""

from __future__ import annotations

import math
import stat
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.tensors.checksums import xor
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS, ToleranceOf
from tests.contracts.frameworks import Framework
from tests.core.store.full_disk import files_of_at_most

NAN, INF = math.nan, math.inf
KEYS = ["type", "dtype", "shape", *STATISTIC_NAMES]
ARRAYS = {
    "bool": np.array([True, False, True]),
    "uint8": np.array([0, 255, 7], np.uint8),
    "int8": np.array([-128, 127], np.int8),
    "int16": np.array([[1, -30000], [2, 3]], np.int16),
    "int32": np.array([-(2**31), 2**31 - 1, 5], np.int32),
    "int64": np.array([2**62 + 1, -(2**53) - 1]),
    "float16": np.linspace(-3, 7, 50, dtype=np.float16),
    "float16_large": np.full(300, 60000, np.float16),
    "float32": np.linspace(-3, 7, 999, dtype=np.float32).reshape(3, 333),
    "float64": np.linspace(-3, 7, 77),
    "complex64": np.array([3 + 4j, 0, -1j], np.complex64),
    "complex128": np.array([3 + 4j, 0, -1j]),
    "nan": np.array([1, NAN, 2], np.float32),
    "inf": np.array([1, INF, -2], np.float32),
    "inf_both": np.array([-INF, INF], np.float32),
    "negative_zero": np.array([-0.0], np.float32),
    "scalar": np.array(-2.5, np.float32),
    "scalar_int": np.array(-7),
    "empty": np.zeros((0, 3), np.float32),
}


def described(framework: Framework, array: Any, precision: str = "low") -> dict[str, Any]:
    ops = framework.ops(precision)
    node = ops.describe(framework.tensor(array), True)
    ops.settle()
    assert not ops.outstanding
    return node  # type: ignore[no-any-return]


def _view(framework: Framework, array: Any, turn: Any) -> Any:
    """Part of a tensor, as the framework's own views where it has any."""
    if framework.name == "fake":
        return framework.tensor_class(turn(framework.tensor(array).data))
    return turn(framework.tensor(array))


def close(found: Any, expected: Any, dtype: np.dtype[Any]) -> bool:
    if expected is None or isinstance(expected, bool) or found is None:
        return found is expected
    if math.isnan(expected) or math.isinf(expected):
        return str(found) == str(expected)
    unit = float(np.finfo(dtype).eps) if dtype.kind in "fc" else 1e-15
    return bool(abs(found - expected) <= 2 * unit * max(abs(expected), 1e-30))


@pytest.mark.parametrize("precision", ["low", "high"])
@pytest.mark.parametrize("name", ARRAYS)
def test_statistics_are_those_of_the_oracle(framework: Framework, name: str, precision: Any) -> None:
    array = ARRAYS[name]
    node, expected = described(framework, array, precision), statistics(array, precision=precision)
    assert list(node) == [*KEYS, *framework.fields]
    assert list(node["shape"]) == list(array.shape)
    finest = np.dtype(np.float32) if precision == "high" and array.dtype == np.float16 else array.dtype
    values: tuple[Any, ...] = expected
    for spec, value in zip(STATISTICS, values, strict=True):
        if spec.tolerance is ToleranceOf.ELEMENT:
            assert repr(node[spec.name]) == repr(value), spec.name
        else:
            assert close(node[spec.name], value, finest), (spec.name, node[spec.name], value)


@pytest.mark.parametrize(
    "turn", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, 1:3]], ids=["turned", "strided", "cut"]
)
def test_views_are_measured_as_what_they_show(framework: Framework, turn: Any) -> None:
    array = turn(np.arange(24, dtype=np.float32).reshape(6, 4))
    tensor = _view(framework, np.arange(24, dtype=np.float32).reshape(6, 4), turn)
    node = framework.ops("low").describe(tensor, True)
    expected = statistics(array)
    assert (node["Max"], node["Min"], node["Mean"]) == (expected.max, expected.min, expected.mean)
    assert framework.ops("low").checksum(tensor, "crc32") == f"{zlib.crc32(array.tobytes()):08x}"
    assert framework.ops("low").checksum(tensor, "xor") == xor(array)


def test_without_statistics_only_the_description_is_there(framework: Framework) -> None:
    node = framework.ops("low").describe(framework.tensor(np.zeros((2, 3), np.float32), True), False)
    assert list(node) == ["type", "dtype", "shape", *framework.fields]
    assert all(node[field] is True for field in framework.fields)


@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "empty"])
def test_checksums_are_those_of_the_bytes(framework: Framework, name: str) -> None:
    tensor, array = framework.tensor(ARRAYS[name]), ARRAYS[name]
    assert framework.ops("low").checksum(tensor, "crc32") == f"{zlib.crc32(array.tobytes()):08x}"
    assert framework.ops("low").checksum(tensor, "xor") == xor(array)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("statistics_too", [True, False], ids=["statistics", "bare"])
@pytest.mark.parametrize("kind", ["crc32", "xor"])
def test_a_description_with_checksum_is_both_of_them(
    framework: Framework, kind: str, statistics_too: bool, name: str
) -> None:
    ops, tensor = framework.ops("low"), framework.tensor(ARRAYS[name])
    node = ops.describe_with_checksum(tensor, statistics_too, kind)
    ops.settle()
    expected = {**ops.describe(tensor, statistics_too), "md5": ops.checksum(tensor, kind)}
    ops.settle()
    assert repr(node) == repr(expected)  # the order of the keys too, and NaN


def test_checksum_of_nothing(framework: Framework) -> None:
    tensor = framework.tensor(ARRAYS["empty"])
    assert framework.ops("low").checksum(tensor, "crc32") == "00000000"


@pytest.mark.parametrize("name", ARRAYS)
def test_saved_tensors_read_back(framework: Framework, name: str, tmp_path: Path) -> None:
    ops = framework.ops("low")
    path = tmp_path / f"t{ops.suffix}"
    assert ops.save(framework.tensor(ARRAYS[name]), path) is True
    found = read_tensor(path)
    assert found.dtype == ARRAYS[name].dtype
    assert found.shape == ARRAYS[name].shape
    assert found.tobytes() == ARRAYS[name].tobytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ARRAYS)
def test_a_snapshot_keeps_the_values_of_its_moment(framework: Framework, name: str, tmp_path: Path) -> None:
    ops, tensor = framework.ops("low"), framework.tensor(ARRAYS[name])
    snapshot = ops.snapshot(tensor)
    assert snapshot is not None
    copy, size = snapshot
    assert size == ARRAYS[name].nbytes
    if framework.name == "mindspore":
        tensor[...] = 0
    else:
        tensor.data[...] = 0
    path = tmp_path / f"t{ops.suffix}"
    assert ops.save(copy(), path)
    assert read_tensor(path).tobytes() == ARRAYS[name].tobytes()


def test_a_view_is_saved_without_the_storage_behind_it(framework: Framework, tmp_path: Path) -> None:
    ops = framework.ops("low")
    path = tmp_path / f"t{ops.suffix}"
    assert ops.save(_view(framework, np.arange(100_000, dtype=np.float32), lambda whole: whole[10:20]), path)
    assert read_tensor(path).tolist() == list(range(10, 20))
    assert path.stat().st_size < 10_000


def test_a_disk_without_room_is_an_oserror(framework: Framework, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"."):
        framework.ops("low").save(framework.tensor(ARRAYS["float32"]), tmp_path / "missing" / "t.pt")
    with files_of_at_most(1 << 16), pytest.raises(OSError, match=r"."):
        framework.ops("low").save(framework.tensor(np.zeros(1 << 20, np.float32)), tmp_path / "large.pt")
    assert not list(tmp_path.iterdir()), "a part of a file is left"


def test_measuring_changes_nothing(framework: Framework, tmp_path: Path) -> None:
    array = ARRAYS["float32"]
    tensor, ops = framework.tensor(array, True), framework.ops("low")
    ops.describe(tensor, True)
    ops.checksum(tensor, "crc32")
    ops.save(tensor, tmp_path / f"t{ops.suffix}")
    assert framework.array(tensor).tobytes() == array.tobytes()
    assert all(getattr(tensor, field) for field in framework.fields)
