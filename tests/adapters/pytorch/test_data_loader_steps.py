"""Steps that data loaders count: one for each batch of the training, and the loaders are as they were afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from msprobe.adapters.pytorch.compat_api import enable_dataloader  # noqa: E402
from msprobe.core.errors import MsprobeException  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

ORIGINAL = DataLoader.__iter__


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()
    for _ in DataLoader(TensorDataset(torch.zeros(1))):  # sees that its debugger is gone
        pass
    assert DataLoader.__iter__ is ORIGINAL


def loader(size: int = 6, workers: int = 0) -> Any:
    return DataLoader(TensorDataset(torch.arange(size * 4.0).reshape(size, 4)), batch_size=2, num_workers=workers)


def train(batches: Any, evaluation: Any = None) -> tuple[Any, list[Any]]:
    """Train one epoch as scripts do, and return the model and its gradients of every batch."""
    torch.manual_seed(0)
    model, gradients = nn.Sequential(nn.Linear(4, 1)), []
    PrecisionDebugger._model = model
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    for (batch,) in batches:
        optimizer.zero_grad()
        model(batch).sum().backward()
        gradients.append(model[0].weight.grad.clone())
        optimizer.step()
        for (other,) in evaluation or ():
            with torch.no_grad():
                model(other.relu())
    return model, gradients


def config(folder: Path, **fields: Any) -> dict[str, Any]:
    settings = {"task": "statistics", "level": "mix", "dump_path": str(folder), "enable_dataloader": True}
    return {**settings, "rank": [], "step": [], "statistics": {"scope": [], "list": []}, **fields}


def calls(folder: Path) -> dict[str, list[str]]:
    files = sorted(folder.glob("step*/*/dump.json"))
    return {file.parts[-3]: list(json.loads(file.read_text())["data"]) for file in files}


@pytest.mark.parametrize("workers", [0, 1])
def test_each_batch_is_a_step(tmp_path: Path, workers: int) -> None:
    PrecisionDebugger(config(tmp_path))
    _, gradients = train(loader(workers=workers))
    found = calls(tmp_path)
    assert sorted(found) == ["step0", "step1", "step2"]
    assert all(any("Linear.forward" in name for name in names) for names in found.values())
    assert all(any("backward" in name for name in names) for names in found.values())
    forget()
    assert all(torch.equal(a, b) for a, b in zip(gradients, train(loader())[1], strict=True))


def test_an_evaluation_between_the_batches_is_no_step(tmp_path: Path) -> None:
    PrecisionDebugger(config(tmp_path))
    train(loader(), evaluation=loader(2))
    found = calls(tmp_path)
    assert sorted(found) == ["step0", "step1", "step2"]
    assert not any("relu" in name for names in found.values() for name in names)


def test_the_loaders_are_as_before_when_all_wanted_steps_are_over(tmp_path: Path) -> None:
    PrecisionDebugger(config(tmp_path, step=[1]))
    assert DataLoader.__iter__ is not ORIGINAL
    train(loader(10))
    assert DataLoader.__iter__ is ORIGINAL
    assert sorted(calls(tmp_path)) == ["step1"]


def test_the_function_switches_it_on_and_off(tmp_path: Path) -> None:
    from msprobe.pytorch import enable_dataloader as exported

    assert exported is enable_dataloader
    with pytest.raises(MsprobeException):
        enable_dataloader()
    PrecisionDebugger(config(tmp_path, enable_dataloader=False))
    with pytest.raises(MsprobeException, match=r"model is a torch.nn.Module or a list of them, got 5"):
        enable_dataloader(5)
    with enable_dataloader(nn.Linear(4, 1)) as steps:
        assert enable_dataloader() is steps
        iterator = iter(loader())
        assert (len(iterator), iterator._num_yielded) == (3, 0)
        train(loader(2))
    assert DataLoader.__iter__ is ORIGINAL
    train(loader())
    assert len(calls(tmp_path)) <= 1


def test_a_loop_that_is_left_and_an_error_of_the_data_reach_nobody_else(tmp_path: Path) -> None:
    class Broken(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            if index == 2:
                raise KeyError("the data")
            return (torch.ones(4),)

    PrecisionDebugger(config(tmp_path))
    with pytest.raises(KeyError, match="the data"):
        train(DataLoader(Broken()))
    assert sorted(calls(tmp_path)) == ["step0", "step1"]


def test_a_folder_that_cannot_be_written_ends_no_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    PrecisionDebugger(config(tmp_path / "dump"))
    (tmp_path / "dump").write_text("in the way")
    assert len(train(loader())[1]) == 3
