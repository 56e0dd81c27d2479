"""Levels and tasks: which entries appear, with which sections, and what their numbers are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.adapters.pytorch.networks import Inplace, Keywords, Mlp, Nested, Shared

pytestmark = pytest.mark.torch

STATISTICS = ["type", "dtype", "shape", "Max", "Min", "Mean", "Norm"]


def train_once(debugger: Any, model: torch.nn.Module, rows: int = 3) -> torch.Tensor:
    x = torch.randn(rows, 4, requires_grad=True)
    debugger.start(model=model)
    model(x).sum().backward()
    debugger.stop()
    debugger.step()
    return x


def test_l0_records_submodules_and_nothing_else(bench: Any) -> None:
    train_once(bench.open("L0"), Mlp())
    recorded = bench.read()
    assert all(name.startswith("Module.") for name in recorded.data)
    assert recorded.names(".forward.") == [
        "Module.fc1.Linear.forward.0",
        "Module.act.ReLU.forward.0",
        "Module.fc2.Linear.forward.0",
    ]
    assert set(recorded.names(".parameters_grad.")) == {
        "Module.fc1.Linear.parameters_grad.0",
        "Module.fc2.Linear.parameters_grad.0",
    }
    assert list(recorded.data["Module.fc1.Linear.forward.0"]) == [
        "input_args",
        "input_kwargs",
        "training",
        "autograd",
        "output",
        "parameters",
    ]
    assert list(recorded.data["Module.fc2.Linear.backward.0"]) == ["input", "output"]
    assert list(recorded.data["Module.fc1.Linear.forward.0"]["parameters"]) == ["weight", "bias"]
    assert recorded.data["Module.act.ReLU.forward.0"]["parameters"] == {}


def test_l1_records_functions_and_an_empty_tree(bench: Any) -> None:
    train_once(bench.open("L1"), Mlp())
    recorded = bench.read()
    assert not recorded.names("Module.")
    assert set(recorded.names()) >= {"Functional.linear.0.forward", "Functional.linear.0.backward"}
    assert list(recorded.data["Functional.relu.0.forward"]) == ["input_args", "input_kwargs", "output"]
    assert recorded.construct == {}


def test_l1_looks_at_no_model(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start(model="not a model")
    F.relu(torch.ones(2))
    debugger.stop()
    assert bench.read().names() == ["Functional.relu.0.forward"]


def test_mix_records_both_and_who_called_whom(bench: Any) -> None:
    train_once(bench.open("mix"), Nested(Mlp()))
    recorded = bench.read()
    assert recorded.construct is not None
    tree = recorded.construct
    assert tree["Functional.linear.0.forward"] == "Module.inner.fc1.Linear.forward.0"
    assert tree["Module.inner.fc1.Linear.forward.0"] == "Module.inner.Mlp.forward.0"
    assert tree["Tensor.__mul__.0.forward"] == "Module.inner.Mlp.forward.0"
    assert tree["Functional.linear.0.backward"] == "Module.inner.fc1.Linear.backward.0"
    assert tree["Module.inner.fc1.Linear.backward.0"] == "Module.inner.Mlp.backward.0"
    assert tree["Module.inner.Mlp.forward.0"] is None
    assert {parent for parent in tree.values() if parent is not None} <= set(tree)


def test_the_model_itself_has_no_entry(bench: Any) -> None:
    train_once(bench.open("mix"), Mlp())
    recorded = bench.read()
    assert not recorded.names("Mlp")
    assert recorded.construct is not None
    assert not [name for name in recorded.construct if "Mlp" in name]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_statistics_are_those_of_the_saved_tensors(bench: Any, level: str) -> None:
    train_once(bench.open(level, "tensor"), Mlp())
    recorded = bench.read()
    leaves = [leaf for body in recorded.data.values() for leaf in tensor_leaves(body)]
    assert len(leaves) > 10
    for leaf in leaves:
        assert list(leaf) == [*STATISTICS, "requires_grad", "data_name"]
        tensor = recorded.tensor(leaf["data_name"])
        assert (str(tensor.dtype), list(tensor.shape)) == (leaf["dtype"], leaf["shape"])
        assert (tensor.max().item(), tensor.min().item()) == (leaf["Max"], leaf["Min"])
        assert leaf["Mean"] == pytest.approx(tensor.mean().item(), rel=1e-5, abs=1e-7)
        assert leaf["Norm"] == pytest.approx(tensor.norm().item(), rel=1e-5)
    assert recorded.files() == sorted(leaf["data_name"] for leaf in leaves)
    assert recorded.dump["dump_data_dir"] == str(recorded.folder / "dump_tensor_data")


def test_statistics_alone_save_no_tensors(bench: Any) -> None:
    train_once(bench.open("mix"), Mlp())
    recorded = bench.read()
    assert recorded.dump["dump_data_dir"] is None
    assert not (recorded.folder / "dump_tensor_data").exists()
    assert list(recorded.data["Functional.relu.0.forward"]["output"][0]) == [*STATISTICS, "Projection", "requires_grad"]


def test_structure_records_names_stacks_and_parents_only(bench: Any) -> None:
    train_once(bench.open("mix", "structure"), Mlp())
    recorded = bench.read()
    assert recorded.data == {}
    assert recorded.construct is not None
    assert recorded.construct["Functional.linear.1.forward"] == "Module.fc2.Linear.forward.0"
    assert any("in forward" in frame for frame in recorded.frames("Functional.relu.0.forward"))


def test_module_numbers_are_those_of_autograd(bench: Any) -> None:
    model = Mlp()
    x = train_once(bench.open("mix", "tensor"), model)
    recorded = bench.read()
    expected = {
        "Module.fc1.Linear.parameters_grad.0.weight.pt": model.fc1.weight.grad,
        "Module.fc2.Linear.parameters_grad.0.bias.pt": model.fc2.bias.grad,
        "Module.fc1.Linear.backward.0.output.0.pt": x.grad,
        "Functional.linear.0.backward.output.0.pt": x.grad,
        "Functional.linear.0.backward.output.1.pt": model.fc1.weight.grad,
        "Functional.linear.0.backward.output.2.pt": model.fc1.bias.grad,
    }
    for name, gradient in expected.items():
        assert torch.equal(recorded.tensor(name), gradient), name


def test_several_models_carry_their_index(bench: Any) -> None:
    first, second = Mlp(), Keywords()
    debugger = bench.open("L0")
    debugger.start(model=[first, second])
    first(torch.ones(1, 4))
    second(torch.ones(1, 4))
    debugger.stop()
    names = bench.read().names(".forward.")
    assert names[0] == "Module.0.fc1.Linear.forward.0"
    assert names[-1] == "Module.1.layer.Linear.forward.0"


def test_several_models_carry_their_name(bench: Any) -> None:
    first, second = Mlp(), Keywords()
    debugger = bench.open("L0")
    debugger.start(model={"": first})
    first(torch.ones(1, 4))
    debugger.start(model={"other": second})  # in the middle of a step
    second(torch.ones(1, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    names = recorded.names(".forward.")
    assert names[0] == "Module.fc1.Linear.forward.0"
    assert names[-1] == "Module.other.layer.Linear.forward.0"
    assert "Module.other.layer.Linear.parameters_grad.0" in recorded.data


class Direct(nn.Module):
    """Calls its parts by ``forward``, one of them a class whose ``forward`` calls that of its base."""

    class Twice(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(super().forward(x))

    def __init__(self) -> None:
        super().__init__()
        self.first, self.twice, self.last = nn.Linear(4, 4), self.Twice(4, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.twice.forward(self.first.forward(x)))


def test_parts_called_by_forward_are_recorded_as_by_call(bench: Any) -> None:
    before = nn.Linear.forward, Direct.Twice.forward
    train_once(bench.open("L0"), Direct())
    recorded = bench.read()
    expected = [f"Module.{name}.forward.0" for name in ("first.Linear", "twice.Twice", "last.Linear")]
    assert recorded.names(".forward.") == expected
    assert {name.replace("forward", "backward") for name in expected} <= set(recorded.data)
    assert (nn.Linear.forward, Direct.Twice.forward) == before


def test_a_forward_that_the_program_sets_while_it_is_replaced_stays(bench: Any) -> None:
    class Patched(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    model = nn.Sequential(Patched(4, 1))
    debugger = bench.open("L0")
    debugger.start(model=model)
    inner = Patched.forward
    Patched.forward = lambda self, x: inner(self, x) + 1  # type: ignore[method-assign]
    own = Patched.forward
    model(torch.ones(1, 4))
    debugger.stop()
    assert Patched.forward is own
    model(torch.ones(1, 4))  # is not recorded, though gradients of the step still are
    debugger.start(model=model)
    model(torch.ones(1, 4))
    debugger.stop()
    assert Patched.forward is own
    assert bench.read().names(".forward.") == [f"Module.0.Patched.forward.{number}" for number in range(2)]


def test_shared_modules_have_one_name_and_count_on(bench: Any) -> None:
    train_once(bench.open("L0"), Shared())
    recorded = bench.read()
    assert recorded.names(".forward.") == ["Module.first.Linear.forward.0", "Module.first.Linear.forward.1"]
    assert recorded.names(".backward.") == ["Module.first.Linear.backward.1", "Module.first.Linear.backward.0"]


def test_keyword_arguments_of_modules_and_their_gradients(bench: Any) -> None:
    train_once(bench.open("L0", "tensor"), Keywords())
    recorded = bench.read()
    body = recorded.data["Module.layer.Linear.forward.0"]
    assert body["input_args"] == []
    assert body["input_kwargs"]["input"]["data_name"] == "Module.layer.Linear.forward.0.kwargs.input.pt"
    (gradients,) = recorded.data["Module.layer.Linear.backward.0"]["output"]
    assert gradients["input"]["shape"] == [3, 4]


def test_in_place_calls_keep_true_inputs_and_their_backward(bench: Any) -> None:
    train_once(bench.open("mix", "tensor"), Inplace())
    recorded = bench.read()
    assert set(recorded.names("backward")) >= {
        "Module.fc.Linear.backward.0",
        "Module.act.ReLU.backward.0",
        "Module.last.Linear.backward.0",
        "Tensor.__iadd__.0.backward",
    }
    before = recorded.tensor("Functional.relu.0.forward.input.0.pt")
    assert before.min() < 0
    assert torch.equal(recorded.tensor("Functional.relu.0.forward.output.0.pt"), before.clamp(min=0))


def test_stacks_name_the_line_of_the_user(bench: Any) -> None:
    train_once(bench.open("mix"), Mlp())
    recorded = bench.read()
    frames = recorded.frames("Functional.relu.0.forward")
    assert any(f"File {__file__}" in frame and "in train_once" in frame for frame in frames)
    assert not any("/msprobe/core/" in frame or "/msprobe/adapters/" in frame for frame in frames)
    assert recorded.stack is not None
    assert not [name for names, _ in recorded.stack.values() for name in names if "backward" in name]


def test_without_extra_info_there_is_only_the_dump(bench: Any) -> None:
    train_once(bench.open("mix", extra_info=False), Mlp())
    recorded = bench.read()
    assert recorded.stack is None
    assert recorded.construct is None
    assert "Functional.linear.0.backward" in recorded.data
    assert sorted(path.name for path in recorded.folder.iterdir()) == ["dump.json"]


def tensor_leaves(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict) and node.get("type") == "torch.Tensor":
        return [node]
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return [leaf for part in parts for leaf in tensor_leaves(part)]


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_parameters_that_have_no_shape_yet_have_gradients(bench: Any, level: str) -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())
    debugger = bench.open(level)
    debugger.start(model=model)
    model(torch.randn(5, 4)).square().sum().backward()
    debugger.stop()
    debugger.step()
    data = bench.read().data
    linear, norm = data["Module.0.LazyLinear.parameters_grad.0"], data["Module.1.LazyBatchNorm1d.parameters_grad.0"]
    nodes = [linear["weight"][0], linear["bias"][0], norm["weight"][0], norm["bias"][0]]
    assert [node["Max"] for node in nodes] == [parameter.grad.max().item() for parameter in model.parameters()]
