"""Task ``grad_probe`` in real trainings: files by level, several optimizers, and the comparison of two runs."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from msprobe.core.grad_probe.grad_compare import GradComparator  # type: ignore[import-not-found] # noqa: E402

from msprobe.core.errors import MsprobeException, NotComparableError  # noqa: E402
from msprobe.monitor.grad_probe.signs import read_signs  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget()
    yield
    PrecisionDebugger._probe.detach() if PrecisionDebugger._probe else None
    forget()


def train(folder: Path, level: str = "L1", turned_from: int = 9, **section: Any) -> list[Any]:
    """Train four steps; from one of them on the data has the other sign. Return the gradients of the first weight."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = {"task": "grad_probe", "dump_path": str(folder), "grad_probe": {"grad_level": level, **section}}
    gradients = []
    forget()
    PrecisionDebugger(config).monitor(model)
    for step in range(4):
        data = torch.randn(5, 4) * (-1 if step >= turned_from else 1)
        model(data).pow(2).sum().backward()
        gradients.append(model[0].weight.grad.clone())
        optimizer.step()
        optimizer.zero_grad()
    return gradients


def rows(folder: Path, step: int) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "rank0" / f"grad_summary_{step}.csv").read_text().splitlines()))


def test_level_0_has_checksums_and_no_signs(tmp_path: Path) -> None:
    gradients = train(tmp_path, "L0")
    first = rows(tmp_path, 2)[0]
    assert list(first) == ["param_name", "MD5", "max", "min", "norm", "shape"]
    assert first["MD5"] == f"{zlib.crc32(gradients[2].numpy().tobytes()):08x}"
    assert float(first["norm"]) == pytest.approx(float(gradients[2].norm()))
    assert [path.name for path in (tmp_path / "rank0").iterdir() if path.is_dir()] == []


def test_level_1_has_signs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gradients = train(tmp_path)
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    assert list(rows(tmp_path, 0)[0]) == ["param_name", "max", "min", "norm", "shape"]
    signs = read_signs(tmp_path / "rank0" / "step3" / "0.weight.npy")
    flat = gradients[3].reshape(-1).numpy()
    assert np.array_equal(np.unpackbits(signs.positive, count=12), flat > 0)
    assert np.array_equal(np.unpackbits(signs.zero, count=12), flat == 0)


def test_level_2_has_shares_of_intervals(tmp_path: Path) -> None:
    gradients = train(tmp_path, "L2", bounds=[-0.5, 0])
    row = rows(tmp_path, 1)[0]
    assert list(row)[1:5] == ["(-inf, -0.5]", "(-0.5, 0]", "(0, inf)", "=0"]
    flat = gradients[1].reshape(-1)
    expected = [(flat <= -0.5), (flat > -0.5) & (flat <= 0), flat > 0, flat == 0]
    assert [float(row[name]) for name in list(row)[1:5]] == pytest.approx([
        float(one.float().mean()) for one in expected
    ])


def test_parameters_can_be_chosen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(tmp_path, param_list=["2.bias", "3.bias"])
    assert [row["param_name"] for row in rows(tmp_path, 0)] == ["2.bias"]
    assert "no parameter 3.bias" in caplog.text


def test_two_optimizers_share_the_number_of_a_step(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in model]
    PrecisionDebugger({"task": "grad_probe", "dump_path": str(tmp_path)}).monitor(model)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert [row["param_name"] for row in rows(tmp_path, 1)] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert not (tmp_path / "rank0" / "grad_summary_2.csv").exists()


def test_two_runs_part_where_the_data_turns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b", turned_from=2)
    (tmp_path / "b" / "rank0" / "step1" / "2.bias.npy").unlink()
    found = GradComparator.compare_distributed(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "out"))
    assert found[0].first_drop is not None
    assert found[0].first_drop[0] == 2
    assert "part in step 2" in caplog.text
    lines = (tmp_path / "out" / "rank0" / "similarities.csv").read_text().splitlines()
    assert lines[0] == "step,0,1,2,3"
    assert lines[1].startswith("summary,1.0,1.0,0.")
    (bias,) = (line for line in lines if line.startswith("2.bias,"))
    assert bias.split(",")[:4] == ["2.bias", "1.0", "", bias.split(",")[3]]
    assert "2.bias.npy" in caplog.text
    pytest.importorskip("matplotlib")
    pictures = {path.name for path in (tmp_path / "out" / "rank0" / "similarities_picture").iterdir()}
    assert "0.weight_similarities.png" in pictures


def test_runs_without_a_common_step_are_not_compared(tmp_path: Path) -> None:
    train(tmp_path / "a", "L0")
    with pytest.raises(NotComparableError, match="no step in common"):
        GradComparator.compare_distributed(str(tmp_path / "a"), str(tmp_path / "a"), str(tmp_path / "out"))
    with pytest.raises(NotComparableError, match="rank0"):
        GradComparator.compare_distributed(str(tmp_path), str(tmp_path), str(tmp_path / "out"))


def test_wrong_uses_are_told(tmp_path: Path) -> None:
    PrecisionDebugger({"task": "statistics", "dump_path": str(tmp_path)})
    with pytest.raises(MsprobeException, match="grad_probe"):
        PrecisionDebugger.monitor(torch.nn.Linear(1, 1))
    forget()
    PrecisionDebugger({"task": "grad_probe", "dump_path": str(tmp_path)})
    with pytest.raises(MsprobeException, match=r"torch\.nn\.Module"):
        PrecisionDebugger.monitor("model")


def test_gradients_stay_as_they_were(tmp_path: Path) -> None:
    watched = train(tmp_path, "L2")
    plain = train(tmp_path, "L2", param_list=["none"])
    assert all(torch.equal(a, b) for a, b in zip(watched, plain, strict=True))
