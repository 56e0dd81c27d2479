"""Modules inside compiled code: recorded as in eager mode, in one graph, and only while collecting."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import msprobe
from msprobe.adapters.pytorch.compile.compiled_calls import CompiledCalls, _OpenFunction, module_numbers
from msprobe.adapters.pytorch.compile.recompilation import supported
from tests.adapters.pytorch.networks import Inplace, Mlp, Nested, Shared

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of the compiler, about itself
    pytest.mark.skipif(not supported(), reason="this torch has no operators with an ordered effect"),
    pytest.mark.usefixtures("fresh_compiler"),
]

BACKENDS = [
    "eager",
    "aot_eager",
    pytest.param("inductor", marks=pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")),
]
TRACED = "aot_eager"


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Two(nn.Module):
    """Keyword, nested and constant arguments; several outputs; an input used inside and outside of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.split = Split()
        self.last = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pair = self.split([x, x * 2], scale=0.5, how="twice", sizes=(1, {"k": None}))
        return self.last(pair.first + pair.second * x)


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, xs: list[torch.Tensor], scale: float, how: str, sizes: Any) -> Pair:
        return Pair(self.inner(xs[0]) * scale, torch.relu(xs[1]) + self.inner(xs[1]))


class Breaking(nn.Module):
    """A graph break of its own between two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = BreakingInner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class BreakingInner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        torch._dynamo.graph_break()
        return self.second(h)


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Mlp(outputs=4)
        self.tail = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(checkpoint(self.block, x, use_reentrant=False))


MODELS = [Mlp, Shared, Inplace, Two, lambda: Nested(Inplace())]
MODEL_IDS = ["mlp", "shared", "inplace", "two", "nested"]


def train(function: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """One forward and backward pass; the result and the gradient of the input."""
    x = x.clone().requires_grad_()
    result = function(x)
    result.square().sum().backward()
    return {"result": result.detach(), "gradient": x.grad}


def batch() -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def collected(bench: Any, model: nn.Module, function: Any, step: int = 0, **options: Any) -> tuple[Any, Any, Any]:
    """Records, tree and results of one step."""
    model.zero_grad()
    debugger = bench.open(**{"level": "L0", **options})
    debugger.start(model=model)
    results = train(function, batch())
    debugger.stop()
    debugger.step()
    results.update({f"of {name}": parameter.grad for name, parameter in model.named_parameters()})
    found = bench.read(step)
    bench.close()
    for body in found.data.values():
        body.pop("autograd", None)  # compiled code has settled it before it runs
    return found.data, found.construct, results


def module_part(records: dict[str, Any]) -> dict[str, Any]:
    return {name: body for name, body in records.items() if name.startswith("Module.")}


def assert_close(found: Any, expected: Any) -> None:
    """The same names and facts; numbers within what another order of the same sums can bring."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    else:
        assert found == expected


def assert_same_results(found: dict[str, Any], expected: dict[str, Any], exact: bool) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if exact:
            assert torch.equal(found[name], value), name
        else:
            torch.testing.assert_close(found[name], value)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.slow
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", MODELS, ids=MODEL_IDS)
def test_records_and_gradients_are_those_of_eager_mode(bench: Any, make: Any, backend: str, level: str) -> None:
    model = make()
    records, tree, results = collected(bench, model, model, level=level)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    found, found_tree, found_results = collected(bench, model, compiled, level=level)
    exact = backend != "inductor"
    assert_same_results(found_results, results, exact)
    (assert_close if not exact else _assert_equal)(module_part(found), module_part(records))
    assert {name: found_tree[name] for name in module_part(tree)} == module_part(tree)


def _assert_equal(found: Any, expected: Any) -> None:
    assert found == expected


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("backend", BACKENDS)
def test_collecting_changes_no_result_of_compiled_code(bench: Any, backend: str) -> None:
    model = Two()
    compiled = torch.compile(model, backend=backend)
    idle = train(compiled, batch())
    idle.update({f"of {name}": parameter.grad for name, parameter in model.named_parameters()})
    _, _, observed = collected(bench, model, compiled)
    assert_same_results(observed, idle, exact=backend != "inductor")


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("level", ["L0", "mix", "L1"])
def test_there_are_no_graph_breaks(bench: Any, level: str) -> None:
    model = Two()
    bench.open(level).start(model=model)
    explained = torch._dynamo.explain(model)(batch())
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)


def counting() -> tuple[Any, list[int]]:
    """A backend that counts the graphs it is given."""
    graphs: list[int] = []

    def compile_graph(graph: Any, inputs: Any) -> Any:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    return compile_graph, graphs


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_toggling_compiles_one_idle_and_one_reporting_version(bench: Any, level: str) -> None:
    model = Mlp()
    backend, graphs = counting()
    compiled = torch.compile(model, backend=backend)
    compiled(batch())
    debugger = bench.open(level)
    for _ in range(12):
        debugger.start(model=model)
        compiled(batch())
        debugger.stop()
        compiled(batch())
        debugger.step()
    assert len(graphs) == 2
    assert graphs[0] < graphs[1]
    for step in range(12):
        assert bench.read(step).names("fc1") == ["Module.fc1.Linear.forward.0"]


def test_a_version_compiled_before_start_is_left_for_one_that_reports(bench: Any) -> None:
    model = Mlp()
    records, _, _ = collected(bench, model, model)
    compiled = torch.compile(model, backend=TRACED)
    train(compiled, batch())
    found, _, _ = collected(bench, model, compiled)
    assert found == records


def test_a_second_debugger_records_what_the_first_has_compiled(bench: Any) -> None:
    model = Mlp()
    compiled = torch.compile(model, backend=TRACED)
    first, _, _ = collected(bench, model, compiled)
    second, _, _ = collected(bench, model, compiled)
    assert first == second
    assert len(first) == 8


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("make_compiled", ["whole", "inner", "in_place"])
def test_names_do_not_depend_on_what_was_compiled(bench: Any, make_compiled: str) -> None:
    model = Nested(Mlp())
    records, tree, _ = collected(bench, model, model)
    target: Any = model
    if make_compiled == "whole":
        target = torch.compile(model, backend=TRACED)
    elif make_compiled == "inner":
        model.inner = torch.compile(model.inner, backend=TRACED)
    else:
        model.compile(backend=TRACED)
    model.zero_grad()
    found, found_tree, _ = collected(bench, target, target)
    assert found == records
    assert found_tree == tree


def test_a_graph_break_of_the_program_loses_nothing(bench: Any) -> None:
    model = Breaking()
    records, tree, results = collected(bench, model, model)
    found, found_tree, found_results = collected(bench, model, torch.compile(model, backend=TRACED))
    assert found == records
    assert found_tree == tree
    assert_same_results(found_results, results, exact=True)


def test_graph_breaks_are_told_once_with_their_lines(bench: Any, capfd: Any) -> None:
    model = Breaking()
    for _ in range(2):
        collected(bench, model, torch.compile(model, backend=TRACED))
    told = [line for line in "".join(capfd.readouterr()).splitlines() if "several graphs" in line]
    assert len(told) == 1
    assert f"{__file__}:" in told[0]
    assert "in forward" in told[0]


def test_without_graph_breaks_nothing_is_told(bench: Any, capfd: Any) -> None:
    model = Mlp()
    collected(bench, model, torch.compile(model, backend=TRACED))
    assert "several graphs" not in "".join(capfd.readouterr())


def test_passes_in_flight_keep_their_gradients_apart(bench: Any) -> None:
    model = Mlp()
    compiled = torch.compile(model, backend=TRACED)
    debugger = bench.open("L0")
    debugger.start(model=model)
    results = [compiled(batch() * scale) for scale in (1, 2)]
    results[0].sum().backward()
    (results[1] * 10).sum().backward()
    debugger.stop()
    data = bench.read().data
    first, second = (data[f"Module.fc2.Linear.backward.{number}"]["input"][0] for number in (0, 1))
    assert (first["Max"], second["Max"]) == (1.0, 10.0)


def test_dynamic_shapes(bench: Any) -> None:
    model = Mlp()
    compiled = torch.compile(model, backend=TRACED, dynamic=True)
    debugger = bench.open("L0")
    for rows in (3, 5, 7):
        debugger.start(model=model)
        train(compiled, torch.ones(rows, 4))
        debugger.stop()
        debugger.step()
    shapes = [bench.read(step).data["Module.fc1.Linear.forward.0"]["input_args"][0]["shape"] for step in range(3)]
    assert shapes == [[3, 4], [5, 4], [7, 4]]


@pytest.mark.parametrize(
    ("section", "count"),
    [({"list": ["fc1"]}, 3), ({"scope": ["Module.fc1.Linear.forward.0", "Module.act.ReLU.forward.0"]}, 2)],
    ids=["list", "scope"],
)
def test_filters(bench: Any, section: Any, count: int) -> None:
    model = Mlp()
    records, _, _ = collected(bench, model, model, section=section)
    found, _, _ = collected(bench, model, torch.compile(model, backend=TRACED), section=section)
    assert found == records
    assert len(found) == count


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("mode", ["statistics", "md5", "xor"])
def test_summary_modes(bench: Any, mode: str) -> None:
    model, section = Mlp(), {"summary_mode": mode}
    records, _, _ = collected(bench, model, model, section=section)
    found, _, _ = collected(bench, model, torch.compile(model, backend=TRACED), section=section)
    assert found == records


def test_tensor_files(bench: Any) -> None:
    model = Mlp()
    compiled = torch.compile(model, backend=TRACED)
    debugger = bench.open("L0", "tensor")
    debugger.start(model=model)
    result = compiled(batch())
    result.sum().backward()
    debugger.stop()
    found = bench.read()
    assert torch.equal(found.tensor("Module.fc2.Linear.forward.0.output.0.pt"), result)
    assert torch.equal(found.tensor("Module.fc2.Linear.backward.0.input.0.pt"), torch.ones(3, 2))


def test_several_models(bench: Any) -> None:
    models = [Mlp(), Mlp()]
    compiled = [torch.compile(model, backend=TRACED) for model in models]
    debugger = bench.open("L0")
    debugger.start(model=models)
    train(lambda x: compiled[0](x) + compiled[1](x), batch())
    debugger.stop()
    assert len(bench.read().names("Module.0.")) == len(bench.read().names("Module.1.")) == 8


def test_checkpointed_block(bench: Any, capfd: Any) -> None:
    model = Recomputed()
    plain = train(torch.compile(model, backend=TRACED), batch())
    found, _, results = collected(bench, model, torch.compile(model, backend=TRACED))
    assert torch.equal(plain["gradient"], results["gradient"])
    assert "Module.block.fc1.Linear.forward.0" in found
    assert found["Module.tail.Linear.backward.0"]["output"][0]["Norm"] is not None
    assert "Module.block.fc1.Linear.forward.1" not in found
    told = [line for line in "".join(capfd.readouterr()).splitlines() if "recorded once" in line]
    assert len(told) == 1
    assert "the first of them is Module.block" in told[0]


def test_an_exported_program_has_nothing_of_ours(bench: Any) -> None:
    model = Mlp()
    bench.open("mix").start(model=model)
    for strict in (False, True):
        program = torch.export.export(model, (batch(),), strict=strict)
        assert "msprobe" not in str(program.graph)
        assert torch.equal(program.module()(batch()), model(batch()))


def test_hooks_registered_while_collecting_stay_in_force(bench: Any) -> None:
    from torch.nn.modules.module import register_module_full_backward_pre_hook

    seen: list[str] = []
    early = register_module_full_backward_pre_hook(lambda module, gradient: seen.append("early"))
    model = Mlp()
    debugger = bench.open("L0")
    debugger.start(model=model)
    late = register_module_full_backward_pre_hook(lambda module, gradient: seen.append("late"))
    early.remove()
    debugger.stop()
    model(batch()).sum().backward()
    late.remove()
    assert set(seen) == {"late"}
    seen.clear()
    model(batch()).sum().backward()
    assert seen == []


def test_a_call_of_another_thread_ends_while_the_next_step_begins() -> None:
    calls = CompiledCalls()

    class Ends(contextlib.nullcontext[None]):
        def __exit__(self, *_: object) -> None:
            del calls._open_functions[2]

    calls._open_functions[1] = _OpenFunction(threading.get_ident(), Ends())
    calls._open_functions[2] = _OpenFunction(0, contextlib.nullcontext())
    calls.reset()
    assert not calls._open_functions


def test_no_python_runs_when_a_module_with_a_number_dies() -> None:
    """Python drops what a handler of the program raises in the callback of a weak reference."""
    calls, module, other, ran = CompiledCalls(), nn.Identity(), nn.Identity(), list[str]()
    identity = id(module)
    calls.register(module)
    number = module_numbers[identity]
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_filename) if event == "call" else None)
    del module
    sys.setprofile(None)
    own = str(Path(msprobe.__file__).parent)
    assert not [path for path in ran if path.startswith(own)]  # a compiler has callbacks of its own
    assert calls.modules[number]() is None
    calls.register(other)
    assert list(calls.modules) == [module_numbers[id(other)]]
    assert identity not in module_numbers or identity == id(other)
