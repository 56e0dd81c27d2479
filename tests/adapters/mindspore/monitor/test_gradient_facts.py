"""Task ``grad_probe`` of MindSpore: files by level, and the signs of a twin in PyTorch."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor, nn, ops, value_and_grad

from msprobe.core.errors import MsprobeException
from msprobe.mindspore import PrecisionDebugger
from msprobe.monitor.grad_probe import comparator
from msprobe.monitor.grad_probe.signs import read_signs
from tests.fresh_debugger import forget


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget("msprobe.mindspore")
    yield
    if PrecisionDebugger._probe:
        PrecisionDebugger._probe.detach()
    forget("msprobe.mindspore")


def weights() -> list[Any]:
    draw = np.random.default_rng(0).normal
    return [draw(size=shape).astype(np.float32) for shape in ((3, 4), (3,), (2, 3), (2,))]


def data() -> list[Any]:
    draw = np.random.default_rng(1).normal
    return [draw(size=(5, 4)).astype(np.float32) for _ in range(3)]


def train(folder: Path, level: str, by_model: bool = False, **section: Any) -> list[Any]:
    """Train three steps; return the gradients of the first weight."""
    net = nn.SequentialCell(nn.Dense(4, 3), nn.ReLU(), nn.Dense(3, 2))
    for one, value in zip(net.trainable_params(), weights(), strict=True):
        one.set_data(Tensor(value))
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    config = {"task": "grad_probe", "dump_path": str(folder), "grad_probe": {"grad_level": level, **section}}
    PrecisionDebugger(config).monitor(net if by_model else optimizer)
    compute = value_and_grad(lambda x: ops.square(net(x)).mean(), None, net.trainable_params())
    kept = []
    for one in data():
        _, gradients = compute(Tensor(one))
        kept.append(gradients[0].asnumpy())
        optimizer(gradients)
    return kept


def rows(folder: Path, step: int) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "rank0" / f"grad_summary_{step}.csv").read_text().splitlines()))


@pytest.mark.parametrize("by_model", [False, True])
def test_level_0_has_checksums(tmp_path: Path, by_model: bool) -> None:
    gradients = train(tmp_path, "L0", by_model)
    first = rows(tmp_path, 2)[0]
    assert list(first) == ["param_name", "MD5", "max", "min", "norm", "shape"]
    assert [row["param_name"] for row in rows(tmp_path, 0)] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert first["MD5"] == f"{zlib.crc32(gradients[2].tobytes()):08x}"
    assert float(first["norm"]) == pytest.approx(np.linalg.norm(gradients[2]))


def test_level_2_has_signs_and_shares_of_intervals(tmp_path: Path) -> None:
    gradients = train(tmp_path, "L2", bounds=[-0.5, 0])
    row, flat = rows(tmp_path, 1)[0], gradients[1].reshape(-1)
    expected = [(flat <= -0.5), (flat > -0.5) & (flat <= 0), flat > 0, flat == 0]
    names = ["(-inf, -0.5]", "(-0.5, 0]", "(0, inf)", "=0"]
    assert [float(row[name]) for name in names] == pytest.approx([one.mean() for one in expected])
    signs = read_signs(tmp_path / "rank0" / "step1" / "0.weight.npy")
    assert np.array_equal(np.unpackbits(signs.positive, count=12), flat > 0)


def test_what_is_neither_a_cell_nor_an_optimizer_is_refused(tmp_path: Path) -> None:
    PrecisionDebugger({"task": "grad_probe", "dump_path": str(tmp_path)})
    with pytest.raises(MsprobeException, match=r"mindspore\.nn\.Cell"):
        PrecisionDebugger.monitor("model")


@pytest.mark.slow
@pytest.mark.torch
def test_the_signs_of_a_twin_in_pytorch_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(comparator, "draw_similarity", lambda *arguments: True)  # pictures have tests of their own
    train(tmp_path / "mindspore", "L1")
    forget("msprobe.mindspore")
    forget()
    from msprobe.pytorch import PrecisionDebugger as TorchDebugger

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    with torch.no_grad():
        for one, value in zip(model.parameters(), weights(), strict=True):
            one.copy_(torch.from_numpy(value))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    TorchDebugger({"task": "grad_probe", "dump_path": str(tmp_path / "torch")}).monitor(model)
    for one in data():
        optimizer.zero_grad()
        model(torch.from_numpy(one)).square().mean().backward()
        optimizer.step()
    TorchDebugger._probe.detach()
    forget()
    found = comparator.GradComparator.compare_distributed(
        str(tmp_path / "mindspore"), str(tmp_path / "torch"), str(tmp_path)
    )
    assert found[0].problems == [] and found[0].first_drop is None
    assert found[0].values["summary"] == [1.0, 1.0, 1.0] and len(found[0].values) == 5
