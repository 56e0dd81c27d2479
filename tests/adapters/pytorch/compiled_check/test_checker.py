"""``PrecisionChecker`` on real compiled modules: right ones pass, wrong operators are found in their module."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from msprobe.pytorch.compile_accuracy_checker.precision_checker import (  # type: ignore[import-not-found] # noqa: E402
    PrecisionChecker,
)

from msprobe.adapters.pytorch.compiled_check.result import CompareResult, ModuleDiff  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.tensor_diff import compare_tensors  # noqa: E402
from msprobe.core.errors import MsprobeException  # noqa: E402
from tests.adapters.pytorch.compiled_check.wrong_backends import changed  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        return self.drop(torch.nn.functional.gelu(self.norm(self.linear(x)))) * scale + x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.head = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x: Any) -> Any:
        return self.head(self.second(self.first(x), scale=0.5))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def check(backend: str = "aot_eager", wrong: Any = None, dtype: Any = torch.float32, **options: Any) -> Any:
    """Check one step of the model; ``wrong`` compiles the second block."""
    model = Model().to(dtype)
    checker = PrecisionChecker(backend=backend, **options)
    if wrong is not None:
        model.second = torch.compile(model.second, backend=wrong)
    model = checker.install(checker.wrap_by_policy(model, (Block,)))
    loss = model(torch.randn(6, 8, dtype=dtype)).pow(2).mean()
    loss.backward()
    return checker.collect(loss), model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_right_modules_pass(dtype: Any) -> None:
    result, _ = check(dtype=dtype)
    assert [diff.name for diff in result.diffs] == ["first", "second"]
    assert result.all_pass
    assert result.compared == 2 * (1 + 4) + 1  # outputs, gradients of parameters; the data needs no gradient
    assert not math.isnan(result.loss_compiled)


@pytest.mark.matrix("wide")
def test_inductor_passes_with_dropout() -> None:
    result, _ = check("inductor")
    assert result.all_pass, list(result.lines)


FAULTS = [
    ("native_layer_norm.default", "forward", lambda value: (value[0] * 1.01, *value[1:]), "fwd_output"),
    ("gelu.default", "forward", lambda value: value * 0.99, "fwd_output"),
    ("gelu_backward.default", "backward", lambda value: value * 1.02, "grad_input"),
    ("mm.default", "backward", lambda value: value * 0.98, "grad_param"),
    ("native_layer_norm_backward.default", "backward", lambda value: (value[0], -value[1], value[2]), "grad_param"),
]


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("name", "where", "change", "kind"), FAULTS, ids=[f"{one[0]}-{one[1]}" for one in FAULTS])
def test_a_wrong_operator_is_found_in_its_module(name: str, where: str, change: Any, kind: str) -> None:
    result, _ = check(wrong=changed(name, change, where))
    assert not result.all_pass
    wrong = {(diff.name, found) for diff in result.diffs for found, _, one in diff.checks if not one.allclose}
    assert {module for module, _ in wrong} == {"second"}
    assert ("second", kind) in wrong


def test_the_training_is_not_changed() -> None:
    def gradients(checked: bool) -> list[Any]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Model()
        checker = PrecisionChecker()
        model = checker.wrap_by_policy(model, (Block,))
        if checked:
            model = checker.install(model)
        for _ in range(2):
            model(torch.randn(6, 8)).pow(2).mean().backward()
        if checked:
            checker.collect()
            assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
        return [one.grad for one in model.parameters()]

    pairs = zip(gradients(True), gradients(False), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_children_can_be_wrapped_and_left_out() -> None:
    model = Model()
    checker = PrecisionChecker()
    checker.ignore(model.first)
    checker.ignore_by_policy(model, (nn.Sequential,))
    model = checker.install(checker.wrap_all_children(model))
    model(torch.randn(6, 8)).sum().backward()
    assert [diff.name for diff in checker.collect().diffs] == ["second"]


def test_two_passes_compare_whole_models(tmp_path: Path) -> None:
    checker = PrecisionChecker(single_pass=False, dump_graphs=True, graph_dir=str(tmp_path / "graphs"))
    model = checker.wrap_all_children(Model().eval())
    result = checker.compare(lambda one: one(torch.ones(6, 8)).mean(), model)
    assert result.all_pass
    assert result.loss_eager == pytest.approx(result.loss_compiled)
    assert {diff.name for diff in result.diffs} == {"first", "second", "head", "parameters"}
    assert len(list((tmp_path / "graphs").iterdir())) == 3


def test_the_table_has_the_documented_columns(tmp_path: Path) -> None:
    result, _ = check(wrong=changed("gelu.default", lambda value: value * 0.9, "forward"))
    PrecisionChecker().report(result, csv_path=str(tmp_path / "a.csv"))
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        "module_name", "check_type", "tensor_index", "status", "max_abs_diff", "mean_abs_diff", "max_rel_diff",
        "shape", "note",
    ]  # fmt: skip
    assert rows[0]["module_name"] == "LOSS"
    (wrong,) = (row for row in rows if row["status"] == "FAIL" and row["check_type"] == "fwd_output")
    assert (wrong["module_name"], wrong["shape"]) == ("second", "(6, 8)")
    assert any("grad_param linear.weight" in row["note"] for row in rows)


def test_nothing_compared_is_no_pass(caplog: pytest.LogCaptureFixture) -> None:
    checker = PrecisionChecker()
    checker.install(Model())
    assert "no compiled module" in caplog.text
    result = checker.collect()
    assert not result.all_pass
    assert "NOTHING COMPARED" in list(result.lines)[-1]


def test_wrong_uses_are_told() -> None:
    with pytest.raises(MsprobeException, match="no back end 'inductr'"):
        PrecisionChecker(backend="inductr")
    with pytest.raises(MsprobeException, match="install"):
        PrecisionChecker().collect()


def test_a_module_in_another_type_is_cast_back() -> None:
    checker = PrecisionChecker(cast_dtype=torch.bfloat16)
    model = checker.install(checker.wrap_by_policy(Model().eval(), (Block,)))
    out = model(torch.randn(6, 8))
    assert out.dtype is torch.float32
    result = checker.collect()
    assert result.cast_dtype is torch.bfloat16
    assert result.all_pass


def test_modules_with_a_child_named_module_are_told_apart() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.module = nn.Sequential()
            self.module.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.module.fc(self.fc(x))
            return out

    checker = PrecisionChecker(backend="aot_eager")
    model = checker.install(checker.wrap_by_policy(Outer(), (nn.Linear,)))
    model(torch.ones(2, 3))
    assert [one.name for one in checker.collect().diffs] == ["fc", "module.fc"]


def test_what_could_not_be_compared_does_not_pass() -> None:
    result = CompareResult(diffs=[ModuleDiff("fc", note="not compared, see the log", is_compared=False)])
    assert not result.all_pass
    assert next(result.lines).startswith("  FAIL  fc")
    conjugate = torch.tensor([1 + 2j]).conj()
    found = compare_tensors(conjugate, conjugate)
    assert found is not None
    assert found.allclose
