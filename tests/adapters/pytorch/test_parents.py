"""construct.json beyond plain nesting: optimizers, gradient clipping, and recomputation with both checkpoint kinds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.adapters.pytorch.networks import Checkpointed, Inplace, Mlp, Nested, Shared
from tests.adapters.recorded import Recorded

pytestmark = pytest.mark.torch


def train(bench: Any, model: torch.nn.Module, **fields: Any) -> Recorded:
    debugger = bench.open("mix", **fields)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    debugger.start(model=model)
    model(torch.randn(3, 4)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    debugger.stop()
    debugger.step()
    recorded: Recorded = bench.read()
    return recorded


def parents(recorded: Recorded) -> dict[str, str | None]:
    assert recorded.construct is not None
    return recorded.construct


def test_calls_of_the_optimizer_and_of_clipping_have_them_as_parent(bench: Any) -> None:
    tree = parents(train(bench, Mlp()))
    assert tree["optimizer"] is None
    assert tree["clip_grad"] is None
    assert {name for name, parent in tree.items() if parent == "optimizer"} >= {"Tensor.add_.0.forward"}
    assert {name for name, parent in tree.items() if parent == "clip_grad"} >= {"Torch._foreach_norm.0.forward"}
    assert tree["Functional.linear.0.forward"] == "Module.fc1.Linear.forward.0"


@pytest.mark.parametrize("by_keyword", [False, True])
def test_calls_of_the_closure_of_a_step_are_those_of_the_program(bench: Any, by_keyword: bool) -> None:
    model = Mlp()
    debugger = bench.open("mix")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        return loss

    debugger.start(model=model)
    returned = optimizer.step(closure=closure) if by_keyword else optimizer.step(closure)  # type: ignore[arg-type]
    debugger.stop()
    debugger.step()
    tree = parents(bench.read())
    assert isinstance(returned, torch.Tensor)
    assert tree["Tensor.sum.0.forward"] is None
    assert tree["Module.fc1.Linear.forward.0"] != "optimizer"
    assert {name for name, parent in tree.items() if parent == "optimizer"} >= {"Tensor.add_.0.forward"}


def test_clipping_by_value_has_its_calls(bench: Any) -> None:
    model = Mlp()
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(torch.randn(3, 4)).sum().backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.125)
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    tree = parents(recorded)
    assert tree["Torch._foreach_clamp_max_.0.forward"] == "clip_grad"
    clamped = recorded.data["Torch._foreach_clamp_max_.0.forward"]["input_args"][0]
    assert [part["Min"] >= -0.125 for part in clamped] == [True] * len(list(model.parameters()))


@pytest.mark.skipif(not hasattr(torch.nn.utils, "get_total_norm"), reason="this torch clips in one function")
def test_clipping_in_two_parts_has_its_calls(bench: Any) -> None:
    model, utils = Mlp(), torch.nn.utils
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(torch.randn(3, 4)).sum().backward()
    norm = utils.get_total_norm([parameter.grad for parameter in model.parameters()])
    utils.clip_grads_with_norm_(model.parameters(), 0.125, norm)
    debugger.stop()
    debugger.step()
    tree = parents(bench.read())
    assert tree["Torch._foreach_norm.0.forward"] == tree["Torch._foreach_mul_.0.forward"] == "clip_grad"


def test_a_step_that_raises_is_the_parent_of_nothing_after_it(bench: Any) -> None:
    model, other = Mlp(), torch.nn.Parameter(torch.ones(2))
    outer, inner = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD([other], lr=0.1)

    def failing() -> Any:
        torch.relu(other)
        raise ValueError("no loss")

    def containing() -> Any:
        with pytest.raises(ValueError, match="no loss"):
            inner.step(failing)
        return torch.sigmoid(other).sum()

    debugger = bench.open("mix")
    debugger.start(model=model)
    outer.step(containing)
    torch.tanh(other)
    with pytest.raises(ValueError, match="no loss"):
        outer.step(failing)
    torch.exp(other)
    debugger.stop()
    debugger.step()
    tree = parents(bench.read())
    assert [tree[f"Torch.{name}.0.forward"] for name in ("relu", "sigmoid", "tanh", "exp")] == [None] * 4


def test_pseudo_nodes_are_not_entries(bench: Any) -> None:
    recorded = train(bench, Mlp())
    assert not {"optimizer", "clip_grad"} & set(recorded.data)


MODELS = {
    "plain": Mlp,
    "nested": lambda: Nested(Mlp()),
    "in place": lambda: Nested(Inplace()),
    "shared": lambda: Nested(Shared()),
    "reentrant": lambda: Nested(Checkpointed(True)),
    "non-reentrant": lambda: Nested(Checkpointed(False)),
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("risk_level", ["FOCUS", "ALL"])
def test_every_parent_is_a_node_and_there_is_no_cycle(bench: Any, name: str, risk_level: str) -> None:
    tree = parents(train(bench, MODELS[name](), risk_level=risk_level))
    assert {parent for parent in tree.values() if parent is not None} <= set(tree)
    for node in tree:
        above, parent = {node}, tree[node]
        while parent is not None:
            assert parent not in above
            above.add(parent)
            parent = tree[parent]


@pytest.mark.parametrize("name", MODELS)
def test_every_entry_but_parameter_gradients_has_a_place(bench: Any, name: str) -> None:
    recorded = train(bench, MODELS[name]())
    entries = {entry for entry in recorded.data if "parameters_grad" not in entry}
    assert entries <= set(parents(recorded))


BLOCK = "Module.inner.block"


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_calls_say_so_and_keep_their_parent(bench: Any, reentrant: bool) -> None:
    recorded = train(bench, Nested(Checkpointed(reentrant)))
    tree = parents(recorded)
    again = {name for name, body in recorded.data.items() if body.get("is_recompute")}
    assert again >= {
        f"{BLOCK}.Mlp.forward.1",
        f"{BLOCK}.fc1.Linear.forward.1",
        f"{BLOCK}.act.ReLU.forward.1",
        "Functional.relu.1.forward",
    }
    assert not [name for name in again if ".forward.0" in name or ".0.forward" in name]
    assert not [name for name in again if "head" in name or "tail" in name]
    assert tree[f"{BLOCK}.Mlp.forward.1"] == tree[f"{BLOCK}.Mlp.forward.0"] == "Module.inner.Checkpointed.forward.0"
    assert tree[f"{BLOCK}.fc1.Linear.forward.1"] == f"{BLOCK}.Mlp.forward.1"
    assert tree["Functional.relu.1.forward"] == f"{BLOCK}.act.ReLU.forward.1"


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_of_a_recomputed_block_are_recorded_once(bench: Any, reentrant: bool) -> None:
    recorded = train(bench, Nested(Checkpointed(reentrant)))
    number = 1 if reentrant else 0
    assert recorded.names(f"{BLOCK}.fc1.Linear.backward") == [f"{BLOCK}.fc1.Linear.backward.{number}"]
    assert recorded.names(f"{BLOCK}.fc1.Linear.parameters_grad") == [f"{BLOCK}.fc1.Linear.parameters_grad.0"]


def test_an_early_end_of_the_recomputation_is_no_error(bench: Any) -> None:
    recorded = train(bench, Nested(Checkpointed(False)))
    early = recorded.data[f"{BLOCK}.Mlp.forward.1"]
    assert list(early) == ["input_args", "input_kwargs", "is_recompute", "training", "autograd"]
    assert not [name for name, body in recorded.data.items() if "error" in body]


def test_without_checkpoint_nothing_is_marked(bench: Any) -> None:
    recorded = train(bench, Nested(Mlp()))
    assert not [name for name, body in recorded.data.items() if "is_recompute" in body]
