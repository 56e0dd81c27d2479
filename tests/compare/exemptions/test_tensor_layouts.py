"""Two programs may keep a tensor in another layout: then its values decide, and a note says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.jobs.compare import CompareResult
from tests.compare.dumps import Entry, call, number, tensor, write


def _compare(tmp_path: Path, left: Entry, right: Entry, **options: object) -> CompareResult:
    given, name = tensor(4.0), "Module.layer.Conv.forward.0"
    target = write(tmp_path / "target", {name: call([given], [left])})
    golden = write(tmp_path / "golden", {name: call([given], [right])})
    return msprobe.compare(target, golden, output=tmp_path, **options)


def _notes(result: CompareResult) -> str:
    return "; ".join(result.outcomes[0].notes)


def test_channels_last_is_another_layout(tmp_path: Path) -> None:
    first, last = (tensor(shape=shape, Projection=number) for shape, number in (((2, 3, 4), 0.1), ((2, 4, 3), 0.7)))
    result = _compare(tmp_path, first, last, layer_mapping=True)
    assert result.verdict == "same"
    assert "layout differs: 1 tensor has" in _notes(result) and "[2, 3, 4] in the target" in _notes(result)


def test_an_axis_of_length_one_is_no_layout(tmp_path: Path) -> None:
    result = _compare(tmp_path, tensor(shape=(6, 4, 1, 3)), tensor(shape=(6, 4, 3)), layer_mapping=True)
    assert result.verdict == "same" and "layout" not in _notes(result)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (tensor(2.0, shape=(2, 3, 4)), tensor(2.5, shape=(2, 4, 3))),
        (tensor(shape=(2, 3, 4)), tensor(shape=(2, 3, 5))),
        (tensor(shape=(2, 3), Projection=0.1), tensor(shape=(2, 3), Projection=0.7)),
        (tensor(shape=(2, 3)), tensor(shape=(3, 2), dtype="float16")),
    ],
    ids=["other_values", "other_sizes", "other_order", "other_dtype"],
)
def test_what_differs_otherwise_is_a_divergence(tmp_path: Path, left: Entry, right: Entry) -> None:
    assert _compare(tmp_path, left, right, layer_mapping=True).verdict == "diverged"


@pytest.mark.parametrize(("value", "verdict"), [(3.0, "same"), (3.5, "diverged")])
def test_an_argument_that_keeps_an_axis_has_no_effect(tmp_path: Path, value: float, verdict: str) -> None:
    """``x.sum(1, keepdim=True)`` and ``x.sum(1)``; what is computed of both has one shape."""

    def run(value: float, keepdim: bool) -> dict[str, Entry]:
        result = tensor(value, shape=(3, 1) if keepdim else (3,))
        product = tensor(value + 4.0, shape=(3, 3))
        return {
            "Tensor.sum.0.forward": call([tensor(4.0, shape=(3, 5)), number(1)], [result], keepdim=number(keepdim)),
            "Tensor.mul.0.forward": call([tensor(2.0, shape=(3, 3)), result], [product]),
            "Torch.relu.0.forward": call([product], [product]),
        }

    target = write(tmp_path / "target", run(3.0, keepdim=True))
    golden = write(tmp_path / "golden", run(value, keepdim=False))
    assert msprobe.compare(target, golden, output=tmp_path).verdict == verdict


def test_one_program_has_one_layout(tmp_path: Path) -> None:
    result = _compare(tmp_path, tensor(shape=(2, 3, 4)), tensor(shape=(2, 4, 3)))
    first = result.summary.first_divergence
    assert first is not None and first.kind == "shape"
