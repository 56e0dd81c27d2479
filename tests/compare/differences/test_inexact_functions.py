"""What a framework is known to compute inexactly is allowed between it and another one, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, module, tensor, write

CPU, ASCEND = {"framework": "mindspore", "device": "CPU"}, {"framework": "mindspore", "device": "Ascend"}
PYTORCH = {"framework": "pytorch"}


def _dump(folder: Path, name: str, by: dict[str, str], error: float, largest: float = 6.0) -> Path:
    given, result = tensor(largest / 2.0), tensor(1.0 + error)
    inner = name.startswith("Module.")
    record = module([given], [result]) if inner else call([given], [result])
    write(folder, {f"{name}.forward.0" if inner else f"{name}.0.forward": record})
    document = json.loads((folder / "dump.json").read_text())
    writer = {"name": "msprobe", "version": "1"} | {key: by[key] for key in by if key == "device"}
    (folder / "dump.json").write_text(json.dumps(document | {"framework": by["framework"], "written_by": writer}))
    return folder


def _verdict(tmp_path: Path, name: str, by: tuple[dict[str, str], dict[str, str]], error: float, **more: float) -> str:
    target, golden = _dump(tmp_path / "a", name, by[0], error, **more), _dump(tmp_path / "b", name, by[1], 0.0, **more)
    both = {compare(target, golden).verdict, compare(golden, target).verdict}
    assert len(both) == 1
    return str(both.pop())


@pytest.mark.parametrize(
    ("name", "error"),
    [("Torch.exp", 4e-6), ("Torch.tanh", 4e-5), ("Torch.sigmoid", 2.5e-6), ("Module.own.Own", 7e-6)],
)
def test_a_known_error_is_allowed_and_a_larger_one_is_not(tmp_path: Path, name: str, error: float) -> None:
    assert _verdict(tmp_path, name, (CPU, PYTORCH), error) == "same"
    assert _verdict(tmp_path, name, (CPU, PYTORCH), max(1e-4, 3 * error)) == "diverged"


@pytest.mark.parametrize("by", [(PYTORCH, PYTORCH), (CPU, CPU), (ASCEND, PYTORCH), (ASCEND, ASCEND)])
def test_it_is_allowed_on_that_device_alone(tmp_path: Path, by: tuple[dict[str, str], dict[str, str]]) -> None:
    assert _verdict(tmp_path, "Torch.tanh", by, 4e-5) == "diverged"


def test_it_is_allowed_between_two_devices_of_the_framework(tmp_path: Path) -> None:
    assert _verdict(tmp_path, "Torch.tanh", (ASCEND, CPU), 4e-5) == "same"


@pytest.mark.parametrize("name", ["Torch.add", "Module.head.Linear", "Torch.tan"])
def test_other_functions_are_judged_as_before(tmp_path: Path, name: str) -> None:
    assert _verdict(tmp_path, name, (CPU, PYTORCH), 4e-6) == "diverged"


def test_small_numbers_have_an_exact_tanh(tmp_path: Path) -> None:
    assert _verdict(tmp_path, "Torch.tanh", (CPU, PYTORCH), 4e-5, largest=2.0) == "diverged"
