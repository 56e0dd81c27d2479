"""Scripts of recorded calls of MindSpore: right for right functions, wrong for planted ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")

import mindspore
from mindspore import mint, nn, ops

from msprobe.cli.main import run
from msprobe.mindspore import PrecisionDebugger
from tests.single_call.running import exit_status

pytestmark = pytest.mark.mindspore


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "tensor"})
    weight = mindspore.Tensor(np.random.default_rng(0).standard_normal((8, 3)), mindspore.float32)

    def loss(given: Any) -> Any:
        return ops.relu(mint.matmul(given, weight)).sum() + ops.cat((given, mint.sin(given)), 1).sum()

    debugger.start()
    mindspore.grad(loss)(
        mindspore.Tensor(np.random.default_rng(1).standard_normal((4, 8)), mindspore.float32)
    ).asnumpy()
    debugger.stop()
    debugger.step()
    return folder


def script(dump: Path, folder: Path, name: str, *words: str) -> Path:
    assert run(["op_generate", str(dump), "--api", name, "--backward", "-o", str(folder), *words]) == 0
    (path,) = folder.glob("*.py")
    return path


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("words", [(), ("--draw",)])
@pytest.mark.parametrize("name", ["Mint.matmul.0", "Functional.relu.0", "Functional.cat.0", "Mint.sin.0"])
def test_a_script_of_a_right_call_passes(dump: Path, tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    status, said = exit_status(script(dump, tmp_path, name, *words))
    assert status == 0, said
    assert said.count("right") >= 2


def test_a_script_of_a_wrong_function_fails(dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, original = script(dump, tmp_path, "Mint.sin.0"), mint.sin

    def wrong(given: Any) -> Any:
        return original(given) * (1.0 if given.dtype == mindspore.float64 else 1.01)

    monkeypatch.setattr(mint, "sin", wrong)
    status, said = exit_status(path)
    assert status == 1, said
    assert "WRONG" in said


class Filtered(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.filter = ops.Conv2D(4, 3)

    def construct(self, images: Any, weight: Any) -> Any:
        return self.filter(images, weight)


@pytest.mark.parametrize(("dtype", "status"), [(mindspore.float32, 2), (mindspore.float16, 0)])
def test_an_operator_without_a_kernel_of_float64(tmp_path: Path, dtype: Any, status: int) -> None:
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(tmp_path / "run"), "level": "L1", "task": "tensor"})
    draw, filtered = np.random.default_rng(0).standard_normal, Filtered()
    debugger.start(filtered)
    filtered(mindspore.Tensor(draw((1, 4, 6, 6)), dtype), mindspore.Tensor(draw((4, 4, 3, 3)), dtype)).asnumpy()
    debugger.stop()
    debugger.step()
    assert run(["op_generate", str(tmp_path / "run"), "--api", "Primitive.filter.Conv2D.0", "-o", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*.py")
    found, said = exit_status(path)
    assert found == status, said
    assert ("not judged: the CPU has no kernel of a higher precision to compare with" in said) == (status == 2)
