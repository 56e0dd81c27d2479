"""Memory nobody has written raises no alarm; what is written to it does."""

from pathlib import Path
from typing import Any

import pytest

from msprobe.jobs.compare import CompareResult, compare
from tests.compare.dumps import call, number, tensor, write


def _compare(tmp_path: Path, target: dict[str, Any], golden: dict[str, Any]) -> CompareResult:
    return compare(write(tmp_path / "t", target), write(tmp_path / "g", golden))


def _run(garbage: float, result: float = 1.0, api: str = "Torch.empty", **more: Any) -> dict[str, Any]:
    memory = tensor(garbage, **more)
    return {
        f"{api}.0.forward": call([number(4)], [memory]),
        "Tensor.reshape.0.forward": call([memory], [memory]),
        "Tensor.normal_.0.forward": call([memory], [tensor(result)]),
        "Torch.mul.0.forward": call([tensor(result)], [tensor(2 * result)]),
    }


@pytest.mark.parametrize("api", ["Torch.empty", "Torch.empty_like", "Tensor.new_empty", "Torch.empty_strided"])
def test_different_garbage_is_no_divergence(tmp_path: Path, api: str) -> None:
    result = _compare(tmp_path, _run(7.0, api=api), _run(1e9, api=api))
    assert result.verdict == "same"
    assert result.summary.counts.error == 0 and result.summary.counts.warning == 4


def test_garbage_that_is_not_a_number_is_no_divergence(tmp_path: Path) -> None:
    nan = float("nan")
    assert _compare(tmp_path, _run(nan), _run(1.0)).verdict == "same"


def test_garbage_by_checksum(tmp_path: Path) -> None:
    left, right = _run(1.0, md5="00000000"), _run(1.0, md5="00000001")
    assert _compare(tmp_path, left, right).verdict == "same"


def test_agreeing_memory_passes(tmp_path: Path) -> None:
    result = _compare(tmp_path, _run(7.0), _run(7.0))
    assert result.summary.counts.warning == result.summary.counts.error == 0


def test_what_is_written_there_is_judged(tmp_path: Path) -> None:
    found = _compare(tmp_path, _run(7.0, 1.1), _run(1e9)).summary.first_divergence
    assert found is not None and (found.target, found.slot) == ("Tensor.normal_.0.forward", "output.0")


def test_a_wrong_shape_stays_one(tmp_path: Path) -> None:
    found = _compare(tmp_path, _run(7.0, shape=(8, 4)), _run(1e9)).summary.first_divergence
    assert found is not None and (found.target, found.kind) == ("Torch.empty.0.forward", "shape")


def test_an_overwritten_value_needs_no_proof(tmp_path: Path) -> None:
    target = {"Tensor.copy_.0.forward": call([tensor(3.0), tensor(1.0)], [tensor(1.0)])}
    golden = {"Tensor.copy_.0.forward": call([tensor(9.0), tensor(1.0)], [tensor(1.0)])}
    assert _compare(tmp_path / "a", target, golden).verdict == "same"
    wrong = {"Tensor.copy_.0.forward": call([tensor(3.0), tensor(2.0)], [tensor(2.0)])}
    assert _compare(tmp_path / "b", wrong, golden).verdict == "diverged"
