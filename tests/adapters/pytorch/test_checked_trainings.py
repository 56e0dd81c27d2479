"""Task free_benchmark in real trainings: what is ill-conditioned, what is wrong, and nothing else."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from msprobe.online.findings import COLUMNS, FURTHER_COLUMNS
from tests.precheck.planted_kernels import PlantedKernel
from tests.precheck.programs import Block

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

Lines = list[dict[str, str]]


def variance(x: torch.Tensor) -> torch.Tensor:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def softmax(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def check(bench: Any, body: Callable[[], Any], **section: Any) -> Lines:
    """Run a function as one step and return the details of the findings."""
    with bench.open("L1", "free_benchmark", section).collect():
        body()
    return lines(bench.root)


def lines(folder: Path) -> Lines:
    path = folder / "free_benchmark_details.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def train(dtype: torch.dtype, steps: int = 2, debugger: Any = None) -> tuple[list[float], list[torch.Tensor], Any]:
    torch.manual_seed(0)
    model = Block().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        if debugger is not None:
            debugger.start(model)
        ids = torch.randint(0, 100, (4, 16))
        loss = F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if debugger is not None:
            debugger.stop()
            debugger.step()
    return losses, [each.detach().clone() for each in model.parameters()], torch.get_rng_state()


def same(one: Any, other: Any) -> bool:
    weights = all(map(torch.equal, one[1], other[1]))
    return one[0] == other[0] and weights and torch.equal(one[2], other[2])


MODES = ("improve_precision", "add_noise", "bit_noise", "change_value", "no_change", "to_cpu")


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("policy", ["default", "reference"])
def test_a_training_is_bit_identical(policy: str, dtype: torch.dtype, bench: Any) -> None:
    plain = train(dtype)
    for mode in MODES:
        debugger = bench.open("L1", "free_benchmark", {"pert_mode": mode, "policy": policy})
        assert same(plain, train(dtype, debugger=debugger)), mode
    debugger = bench.open("L1", "free_benchmark", {"fuzz_stage": "backward", "list": ["linear", "gelu", "softmax"]})
    assert same(plain, train(dtype, debugger=debugger))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_right_training_has_no_finding(dtype: torch.dtype, bench: Any) -> None:
    train(dtype, 1, bench.open("L1", "free_benchmark", {}))
    assert lines(bench.root) == []
    train(dtype, 1, bench.open("L1", "free_benchmark", {"pert_mode": "no_change"}))
    assert lines(bench.root) == []


@pytest.mark.parametrize("mode", ["improve_precision", "bit_noise"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ill_conditioned_steps_have_their_line(dtype: torch.dtype, mode: str, bench: Any) -> None:
    far = 1e4 if dtype == torch.float32 else 10.0
    x = torch.randn(8, 64)

    def program() -> None:
        variance((x + far).to(dtype))
        softmax((x * 20).to(dtype))
        F.softmax((x * 20).to(dtype), -1)
        x.to(dtype).var(-1)

    found = check(bench, program, pert_mode=mode)
    names = {line["api_name"] for line in found}
    assert {"Tensor.__sub__.0.forward"} <= names <= {"Tensor.__sub__.0.forward", "Torch.exp.0.forward"}
    assert ("Torch.exp.0.forward" in names) == (dtype == torch.bfloat16)  # 24 digits are enough for exp of 100
    assert {line["verdict"] for line in found} == {"ill-conditioned"}
    subtraction = next(line for line in found if "sub" in line["api_name"])
    assert "test_checked_trainings.py" in subtraction["source"] and "x.mean(-1) ** 2" in subtraction["source"]
    assert float(subtraction["condition_number"]) > 50
    assert float(subtraction["kernel_error"]) < 0.01


def test_functions_that_step_have_no_condition(bench: Any) -> None:
    experts = torch.tensor([0.0, 1.0, 1.0, 2.0])

    def program() -> None:
        torch.histc(experts, bins=3, min=0, max=2)
        torch.floor(experts), experts // 1, experts % 2, torch.sign(experts - 1)

    assert check(bench, program) == []


def test_a_result_that_does_not_fit_is_an_overflow(bench: Any) -> None:
    (line,) = check(bench, lambda: torch.exp(torch.full((4,), 12.0, dtype=torch.float16)))
    assert (line["verdict"], line["api_name"]) == ("overflow", "Torch.exp.0.forward")


@pytest.mark.parametrize(
    ("operator", "kind", "api"), [("exp", "scale", "exp"), ("gelu", "one element", "gelu"), ("mm", "NaN", "mm")]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_wrong_kernel_is_told_from_an_ill_conditioned_step(
    operator: str, kind: str, api: str, dtype: torch.dtype, bench: Any
) -> None:
    x = torch.randn(16, 16)

    def program() -> None:
        values = x.to(dtype)
        getattr(torch, api)(values) if api == "exp" else F.gelu(values) if api == "gelu" else torch.mm(values, values)
        variance(values.float().mul(0.1).add(1e4))

    with PlantedKernel(operator, kind).planted():
        found = check(bench, program)
    assert {(line["api_name"].split(".")[1], line["verdict"]) for line in found} == {
        (api, "wrong kernel"),
        ("__sub__", "ill-conditioned"),
    }
    recorded = bench.read()
    assert {name.split(".")[1] for name in recorded.names()} == {api, "__sub__"}  # ready for op_generate


def test_the_table_has_the_documented_columns(bench: Any) -> None:
    check(bench, lambda: softmax(torch.full((2, 8), 40.0, dtype=torch.bfloat16) + torch.arange(8)), list=["exp"])
    for folder in (bench.root, bench.read().folder):
        with (folder / "free_benchmark.csv").open(encoding="utf-8", newline="") as file:
            head, line = list(csv.reader(file))
        assert tuple(head) == COLUMNS
        assert line[:5] == ["0", "improve_precision", "forward", "0", "Torch.exp.0.forward"]
        assert float(line[5]) > 0.1
        assert line[6:] == ["bfloat16", "[2, 8]", "0"]
        first = (folder / "free_benchmark_details.csv").read_text(encoding="utf-8").splitlines()[0]
        assert tuple(first.split(",")) == (*COLUMNS, *FURTHER_COLUMNS)


def test_the_backward_pass_by_name(bench: Any) -> None:
    x = torch.randn(4, 16, requires_grad=True)

    def program() -> None:
        softmax((x * 30).to(torch.bfloat16)).square().sum().backward()

    found = check(bench, program, fuzz_stage="backward", list=["torch.exp", "linear"])
    assert {(line["stage"], line["api_name"]) for line in found} == {("backward", "Torch.exp.0.backward")}
    assert x.grad is not None


def test_a_wrong_backward_is_found(bench: Any) -> None:
    x = torch.randn(4, 16, requires_grad=True)
    with PlantedKernel("gelu_backward", "sign").planted():
        found = check(bench, lambda: F.gelu(x).square().sum().backward(), fuzz_stage="backward", list=["gelu"])
    assert [(line["api_name"], line["verdict"]) for line in found] == [("Functional.gelu.0.backward", "wrong kernel")]


def test_fix_gives_the_program_the_better_result(bench: Any) -> None:
    x = torch.randn(4, 64).add(10).to(torch.bfloat16).requires_grad_()
    kept = torch.empty(4, dtype=torch.bfloat16)

    def program() -> torch.Tensor:
        view = x.detach()[:, :2]
        view[0, 0] = 3.0  # still a part of x
        kept.copy_(F.layer_norm(x, (64,)).mean(-1))
        return torch.sum(x, -1)

    plain = program()
    with bench.open("L1", "free_benchmark", {"handler_type": "fix"}).collect():
        fixed = program()
        fixed.sum().backward()
    assert fixed.dtype == torch.bfloat16 and plain.dtype == torch.bfloat16
    assert torch.equal(fixed, x.detach().double().sum(-1).to(torch.bfloat16))
    assert x.detach()[0, 0] == 3.0
    assert x.grad is not None and bool((x.grad == 1).all())


@pytest.mark.parametrize("mode", ["improve_precision", "to_cpu"])
def test_fix_heals_a_kernel_that_is_wrong_in_low_precision(mode: str, bench: Any) -> None:
    class Library:
        @staticmethod
        def twice(values: torch.Tensor) -> torch.Tensor:
            return values * (2.5 if values.dtype == torch.bfloat16 and values.is_cpu else 2.0)

    section = {"handler_type": "fix", "pert_mode": mode, "fuzz_device": "cpu" if mode == "to_cpu" else "npu"}
    debugger = bench.open("L1", "free_benchmark", section)
    debugger.register_custom_api(Library, "twice", "Library")
    x = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    with debugger.collect():
        Library.twice(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 4
    assert Library.twice(x).tolist() == [2.5] * 4


def test_calls_that_cannot_be_run_again_are_counted(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    generator = torch.Generator().manual_seed(1)
    check(bench, lambda: torch.bernoulli(torch.full((8,), 0.5), generator=generator))
    assert "1 not checked (Torch.bernoulli: an argument of type Generator cannot be given again)" in (
        capsys.readouterr().out
    )
    fresh = torch.Generator().manual_seed(1)
    torch.bernoulli(torch.full((8,), 0.5), generator=fresh)
    assert torch.equal(generator.get_state(), fresh.get_state())


def test_the_published_policy_flags_the_last_bit_and_ours_does_not(bench: Any) -> None:
    x = torch.randn(8, 32).to(torch.bfloat16)
    flagged = check(bench, lambda: F.gelu(x), policy="reference", pert_mode="bit_noise")
    assert [line["api_name"] for line in flagged] == ["Functional.gelu.0.forward"]
    other = type(bench)(bench.root.with_name("ours"), "msprobe.pytorch")
    assert check(other, lambda: F.gelu(x), pert_mode="bit_noise") == []
    other.close()


def test_preheating_raises_the_thresholds(bench: Any) -> None:
    x = torch.randn(8, 32)
    section = {"policy": "reference", "pert_mode": "bit_noise", "if_preheat": True, "preheat_step": 3}
    debugger = bench.open("L1", "free_benchmark", section)
    for _ in range(5):
        with debugger.collect():
            torch.sub(x, x.roll(1, 0).mul(0.9999))
    assert lines(bench.root) == []


def test_sums_that_depend_on_the_order(bench: Any) -> None:
    def wrong_sum(values: torch.Tensor) -> torch.Tensor:
        return values.cumsum(0)[0] + values[1:].sum() * 0.5  # the first element counts twice as much

    class Library:
        sum = staticmethod(wrong_sum)

    debugger = bench.open("L1", "free_benchmark", {"pert_mode": "change_value"})
    debugger.register_custom_api(Library, "sum", "Library")
    with debugger.collect():
        Library.sum(torch.arange(8.0))
        torch.arange(8.0).sum()
    (line,) = lines(bench.root)
    assert (line["verdict"], line["api_name"]) == ("order of elements", "Library.sum.0.forward")


@pytest.mark.parametrize("handler", ["check", "fix"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activation_checkpointing_goes_on(handler: str, dtype: torch.dtype, bench: Any) -> None:
    """What a check saves for a backward pass is none of the program's, and it ends recomputations by an exception."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(dtype)
    x = torch.ones(3, 4, dtype=dtype)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    gradients = [one.grad.clone() for one in model.parameters()]
    model.zero_grad()
    check(bench, lambda: checkpoint(model, x, use_reentrant=False).sum().backward(), handler_type=handler)
    exact = handler == "check" or dtype == torch.float32
    for one, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(one.grad, gradient, rtol=0.0 if exact else 0.05, atol=0.0 if exact else 0.05)


def test_functions_keep_their_names(bench: Any) -> None:
    names: list[str] = []
    check(bench, lambda: names.extend((F.gelu.__name__, torch.relu.__name__)))
    assert names == ["gelu", "relu"]
