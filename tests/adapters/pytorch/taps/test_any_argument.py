"""Whatever goes through a call: the program ends as without the tool, and the dump is whole."""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from tests.adapters.bench import Bench
from tests.adapters.pytorch.odd_values import CONTAINERS, SINGLE, TENSORS, Recipe, build
from tests.adapters.pytorch.random_tensors import DTYPES, VIEWS, RandomTensor
from tests.matrices import matrix_params

pytestmark = pytest.mark.torch

RECIPES = st.recursive(
    st.sampled_from(sorted(SINGLE)),
    lambda inner: st.tuples(st.sampled_from(sorted(CONTAINERS)), st.lists(inner, max_size=3)),
    max_leaves=4,
)
DRAWN = st.builds(
    RandomTensor,
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 5), max_size=5).map(tuple),
    st.lists(st.sampled_from(sorted(VIEWS)), max_size=3).map(tuple),
    st.booleans(),
)
KINDS = [
    pytest.param(level, task, mode, id=f"{level}-{task}-{mode}")
    for level in ("L0", "L1", "mix")
    for task, mode in (
        ("statistics", "statistics"),
        ("statistics", "md5"),
        ("statistics", "xor"),
        ("tensor", "statistics"),
        ("structure", "statistics"),
    )
    if (level, task) != ("L1", "structure")
]
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
UNSAFE = {"emptied view"}
"""Torch itself reads where nothing is when it computes with these; they are only passed on."""


class Carrier(torch.nn.Module):
    """Hands its arguments on, beside something that has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return functional.relu(self.weight * 2), args, kwargs


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.carrier = Carrier()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.carrier(*args, **kwargs)


def handed_on(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


OWNER = SimpleNamespace(handed_on=handed_on, same=lambda value: value)
COMPUTED: tuple[Callable[[Any], Any], ...] = (
    lambda value: torch.clone(value),
    lambda value: functional.relu(value),
    lambda value: torch.sum(value),
    lambda value: value * 2,
    lambda value: value.add_(1),
)


def bits(value: Any) -> Any:
    """A result in a form that is equal only if every bit is."""
    if type(value) is torch.Tensor and value.layout is torch.strided and value.is_cpu and not _is_wrapper(value):
        try:
            detached = value.detach().clone().reshape(-1)
            return str(value.dtype), tuple(value.shape), bytes(detached.view(torch.uint8).numpy())
        except RuntimeError:
            return type(value)
    return type(value)


def _is_wrapper(value: torch.Tensor) -> bool:
    """Behind these lies memory that nobody has written."""
    return value._is_zerotensor() or torch._is_functional_tensor(value)


def computed(call: Callable[[Any], Any], value: Any) -> Any:
    try:
        return bits(call(value))
    except Exception as error:  # noqa: BLE001
        return type(error)


def program(network: Network, recipe: Recipe) -> list[Any]:
    """Everything a program can see of its calls, as values that can be compared."""
    torch.manual_seed(0)
    value = build(recipe)
    (same,), keywords = OWNER.handed_on(value, key=value, dtype=value, device=value)
    seen = [same is value, all(given is value for given in keywords.values())]
    result, (same,), _ = network(value, named=value)
    seen.append(same is value)
    result.sum().backward()
    seen += [bits(result), bits(network.carrier.weight.grad)]
    if issubclass(type(value), torch.Tensor) and recipe not in UNSAFE:
        seen += [computed(call, value) for call in COMPUTED]
    if type(value).__name__ == "generator":
        seen.append(list(value))
    torch.tanh(torch.ones(2))
    return seen


class Trial:
    """One debugger for many programs, each in a step of its own."""

    def __init__(self, bench: Bench, level: str, task: str, mode: str, **fields: Any) -> None:
        self.bench, self.level, self.task = bench, level, task
        section = {} if task == "structure" else {"summary_mode": mode}
        self.debugger = bench.open(level, task, section, risk_level="ALL", **fields)
        self.debugger.register_custom_api(OWNER, "handed_on", "Own")
        self.step = 0

    def run(self, recipe: Recipe) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = program(Network(), recipe)
            network = Network()
            self.debugger.start(network)
            try:
                seen = program(network, recipe)
            finally:
                self.debugger.stop()
                self.debugger.step()
        assert seen == expected, recipe
        self.check()
        self.step += 1

    def check(self) -> None:
        recorded = self.bench.read(self.step)
        if self.task == "structure":
            assert recorded.construct
            return
        if self.level != "L1":
            entry = recorded.data["Module.carrier.Carrier.forward.0"]
            assert list(entry) == ["input_args", "input_kwargs", "training", "autograd", "output", "parameters"]
            assert entry["parameters"]["weight"]["shape"] == [3]
        if self.level != "L0":
            assert list(recorded.data["Own.handed_on.0.forward"]) == ["input_args", "input_kwargs", "output"]
            last = [name for name in recorded.data if "tanh" in name][-1]
            assert recorded.data[last]["output"][0]["shape"] == [2]
        for path in recorded.files():
            recorded.tensor(path)
        json.dumps(recorded.dump)


def tried(trial: Trial, examples: int, recipes: st.SearchStrategy[Recipe] = RECIPES) -> None:
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(recipes)
    def run(recipe: Recipe) -> None:
        trial.run(recipe)

    run()


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize(("level", "task", "mode"), KINDS)
def test_nested(level: str, task: str, mode: str, bench: Bench) -> None:
    tried(Trial(bench, level, task, mode), 20)


@pytest.mark.slow
@pytest.mark.parametrize(("level", "task", "mode"), matrix_params("fuzz", KINDS, sample=()))
def test_nested_at_length(level: str, task: str, mode: str, bench: Bench) -> None:
    tried(Trial(bench, level, task, mode), 150)


class TensorTrial(Trial):
    """Of tensors alone, whose shape and dtype must be recorded as they are."""

    def run(self, recipe: Recipe) -> None:
        super().run(recipe)
        tensor = build(recipe)
        (node,) = self.bench.read(self.step - 1).data["Own.handed_on.0.forward"]["input_args"]
        assert (node["dtype"], node["shape"]) == (str(tensor.dtype), list(tensor.shape))
        assert node["requires_grad"] is tensor.requires_grad


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(
    ("task", "mode", "background"),
    [
        pytest.param("statistics", "statistics", False, id="statistics"),
        pytest.param("statistics", "md5", False, id="md5", marks=pytest.mark.slow),
        pytest.param("statistics", "xor", False, id="xor", marks=pytest.mark.slow),
        pytest.param("tensor", "md5", False, id="tensor-md5", marks=pytest.mark.slow),
        pytest.param("tensor", "md5", True, id="tensor-md5-async", marks=pytest.mark.slow),
    ],
)
def test_any_tensor(task: str, mode: str, background: bool, bench: Bench) -> None:
    tried(TensorTrial(bench, "mix", task, mode, async_dump=background), 40, DRAWN)


@pytest.mark.parametrize("background", [False, True], ids=["sync", "async"])
def test_bytes_of_every_dtype_through_every_view(background: bool, bench: Bench) -> None:
    debugger = bench.open("L1", "tensor", {"summary_mode": "md5"}, risk_level="ALL", async_dump=background)
    debugger.register_custom_api(OWNER, "same", "Own")
    tensors = [RandomTensor(dtype, (2, 3), (view,), grad=False).build() for dtype in DTYPES for view in VIEWS]
    debugger.start()
    for tensor in tensors:
        OWNER.same(tensor)
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    for number, tensor in enumerate(tensors):
        (node,) = recorded.data[f"Own.same.{number}.forward"]["output"]
        assert (node["dtype"], node["shape"]) == (str(tensor.dtype), list(tensor.shape))
        words = tensor.view(WORDS.get(tensor.dtype.itemsize, tensor.dtype)).contiguous()
        assert node["md5"] == f"{zlib.crc32(words.numpy().tobytes()):08x}", tensor.dtype
        if "data_name" in node:
            saved = recorded.tensor(node["data_name"])
            assert saved.view(words.dtype).tolist() == words.tolist()


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.parametrize(("level", "task", "mode"), [("mix", "statistics", "md5"), ("mix", "tensor", "statistics")])
def test_each_single_value(level: str, task: str, mode: str, bench: Bench) -> None:
    trial = Trial(bench, level, task, mode)
    for name in sorted(SINGLE):
        trial.run(name)


ENDLESS = [name for name in sorted(SINGLE) if name.startswith("endless")]


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("background", [False, True], ids=["sync", "async"])
def test_what_never_ends_is_recorded_as_result_and_point(name: str, background: bool, bench: Bench) -> None:
    debugger = bench.open("L1", "tensor", async_dump=background)
    debugger.register_custom_api(OWNER, "same", "Own")
    value = SINGLE[name]()
    debugger.start()
    assert OWNER.same(value) is value
    debugger.save({"a": value, "b": torch.ones(1)}, "point")
    debugger.stop()
    debugger.step()
    assert list(bench.read().data["Own.same.0.forward"]) == ["input_args", "input_kwargs", "output"]


def test_facts_of_odd_tensors(bench: Bench) -> None:
    """What can be known of a tensor is recorded, and what cannot be is null."""
    debugger = bench.open("L1", risk_level="ALL")
    debugger.register_custom_api(OWNER, "handed_on", "Own")
    names = sorted(TENSORS)
    debugger.start()
    for name in names:
        OWNER.handed_on(TENSORS[name]())
    debugger.stop()
    data = bench.read().data
    nodes = {name: data[f"Own.handed_on.{number}.forward"]["input_args"][0] for number, name in enumerate(names)}
    assert [name for name, node in nodes.items() if node is None] == []
    facts = {name: (node["dtype"], node["shape"], node["Max"]) for name, node in nodes.items()}
    assert facts["emptied view"] == ("torch.float32", [8], None)
    assert facts["nested"] == ("torch.float32", [2, None], 1)
    assert facts["meta"] == ("torch.float32", [3], None)
    assert facts["coo not coalesced"] == ("torch.float32", [2], 3)
    assert facts["csr"] == ("torch.float32", [4, 4], 1)
    assert facts["negative view"] == ("torch.float32", [3], 0)
    assert facts["subclass that raises"] == ("torch.float32", [2], 1)
    assert facts["torch.uint64"] == ("torch.uint64", [2], 0)
    assert facts["uninitialised parameter"] == ("torch.float32", [], None)
    assert facts["torch.bits8"] == ("torch.bits8", [16], None)
