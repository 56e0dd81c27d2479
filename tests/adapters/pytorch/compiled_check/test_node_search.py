"""From a wrong module to its first wrong node: planted faults are found at operator and line."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.compiled_check.checker import PrecisionChecker  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.result import CompareResult  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.wrong_node import WrongNode, module_of  # noqa: E402
from tests.adapters.pytorch.compiled_check import planted_kernels as planted  # noqa: E402
from tests.adapters.pytorch.compiled_check.planted_kernels import FAULTS, Block, Model, wrong  # noqa: E402
from tests.adapters.pytorch.compiled_check.wrong_backends import changed, joined_wrongly  # noqa: E402
from tests.matrices import matrix_params  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def checked(call: Callable[..., Any], backend: Any) -> tuple[PrecisionChecker, CompareResult]:
    """Check one step of the model; a back end that is a function compiles the block with the call."""
    model = Model(call)
    named = isinstance(backend, str)
    checker = PrecisionChecker(backend=backend if named else "aot_eager")
    if not named:
        model.blocks[1] = torch.compile(model.blocks[1], backend=backend)
    model = checker.install(checker.wrap_by_policy(model, (Block,)))
    model(torch.randn(3, 5, 8)).square().mean().backward()
    return checker, checker.collect()


def located(call: Callable[..., Any], backend: Any) -> WrongNode:
    """Return the node that is named."""
    checker, result = checked(call, backend)
    node = checker.locate(result)
    assert node is not None, list(result.lines)
    return node


def computing(node: WrongNode) -> list[str]:
    """Return the operators of the smallest graph, without parts of their results."""
    return [str(one.target) for one in node.called.operators if one.target is not operator.getitem]


@pytest.mark.parametrize("name", matrix_params("compiled", FAULTS, ()))
def test_a_planted_kernel_of_inductor_is_named_with_its_line(name: str) -> None:
    fault = FAULTS[name]
    with wrong(fault):
        node = located(fault.call, "inductor")
    assert (node.operator, node.direction) == (f"aten.{fault.operator}", fault.direction)
    assert node.source.startswith(fault.line)
    assert node.module == "blocks.1"
    assert computing(node) == [node.operator]


def test_faults_of_another_back_end_are_named() -> None:
    node = located(planted.gelu, changed("gelu_backward.default", lambda value: value * 1.01, "both"))
    assert (node.operator, node.direction) == ("aten.gelu_backward.default", "backward")
    assert node.source.endswith("in gelu: return functional.gelu(x)")
    node = located(planted.softmax, changed("addmm.default", lambda value: value * 1.01, "both"))
    assert node.module == "blocks.1.up"
    assert "self.up(x)" in node.source


@pytest.mark.matrix("wide")
def test_operators_that_are_wrong_only_together_are_found_by_the_minifier() -> None:
    node = located(planted.square_root, joined_wrongly("add.Tensor", "rsqrt.default"))
    assert computing(node) == ["aten.add.Tensor", "aten.rsqrt.default"]
    assert node.operator == "aten.add.Tensor + aten.rsqrt.default"
    assert "x * torch.rsqrt(x * x + 1.0)" in node.source


def test_the_lines_of_the_result_name_the_node() -> None:
    checker, result = checked(planted.tanh, changed("tanh.default", lambda value: value + 0.01, "both"))
    checker.report(result)
    lines = list(result.lines)
    assert lines[-4] == "RESULT: FAIL, first at blocks.1"
    assert lines[-3] == "  node:   aten.tanh.default (forward) in blocks.1"
    assert lines[-2].startswith(f"  source: {planted.__file__}:")
    assert lines[-1].startswith("  reason: differs by")


def test_right_modules_have_no_wrong_node() -> None:
    checker, result = checked(planted.gelu, "aot_eager")
    assert checker.locate(result) is None
    assert (result.wrong_node, result.node_note) == (None, "")


@pytest.mark.matrix("wide")
def test_two_passes_and_faults_that_are_gone_say_why_there_is_no_node() -> None:
    checker = PrecisionChecker(single_pass=False)
    model = Model(planted.gelu)
    model.blocks[1] = torch.compile(model.blocks[1], backend=changed("gelu.default", lambda value: -value, "both"))
    result = checker.compare(lambda one: one(torch.ones(2, 3, 8)).mean(), model)
    assert checker.locate(result) is None
    assert "one pass" in list(result.lines)[-1]
    state = {"wrong": True}
    checker, result = checked(
        planted.gelu, changed("gelu.default", lambda value: value * (1.01 if state["wrong"] else 1.0), "both")
    )
    state["wrong"] = False
    assert checker.locate(result) is None
    assert "are right when they are compiled by themselves" in list(result.lines)[-1]


def test_a_module_that_fails_the_second_time_ends_nothing() -> None:
    checker, result = checked(planted.gelu, changed("gelu.default", lambda value: -value, "both"))
    call = result.first_wrong.call.call
    call.module.forward = None
    random = torch.get_rng_state()
    checker.report(result)
    assert result.wrong_node is None
    assert "cannot be traced again" in result.node_note
    assert torch.equal(torch.get_rng_state(), random)


def test_the_search_changes_nothing_of_the_program() -> None:
    checker, result = checked(planted.gelu, changed("gelu.default", lambda value: value * 1.01, "both"))
    model = result.first_wrong.call.call.module
    before = [(one.detach().clone(), one.grad.clone()) for one in model.parameters()]
    random = torch.get_rng_state()
    assert checker.locate(result) is not None
    assert torch.equal(torch.get_rng_state(), random)
    for one, (value, gradient) in zip(model.parameters(), before, strict=True):
        assert torch.equal(one, value)
        assert torch.equal(one.grad, gradient)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("L['self']", ""),
        ("L['self'].l", "l"),
        ("L['self']._modules['layers'].0", "layers.0"),
        ("L['self'].layers[0].mlp", "layers.0.mlp"),
        ("L['fn'].layers['first']", "layers.first"),
    ],
)
def test_paths_of_modules_are_those_of_the_model(path: str, expected: str) -> None:
    node = torch.fx.Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"outer": ("L['self']", None), "inner": (path, None)}
    assert module_of(node) == expected
