"""What programs do with functions and modules works while they are wrapped."""

from __future__ import annotations

import copy
import inspect
import io
import multiprocessing
import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.adapters.pytorch.networks import Mlp

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # torch.jit says that it is old, fork that there are threads
]

FUNCTIONS = ["torch.nn.functional.gelu", "torch.nn.functional.dropout", "torch.relu", "torch.Tensor.add"]


def found(path: str) -> Any:
    value: Any = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


def batch() -> torch.Tensor:
    return torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture
def model() -> nn.Module:
    return Mlp()


@pytest.fixture
def running(bench: Any, model: nn.Module) -> Iterator[Any]:
    """A collection of everything; at its end something was recorded and nothing went wrong."""
    debugger = bench.open("mix", risk_level="ALL")
    debugger.start(model=model)
    yield debugger
    F.gelu(torch.ones(1))
    debugger.stop()
    assert bench.read().names("gelu")
    errors = bench.read().folder / "dump_error_info.log"
    assert not errors.exists(), errors.read_text()


@pytest.mark.parametrize("path", ["torch.nn.functional.dropout", "torch.nn.functional.layer_norm"])
def test_signature(running: Any, path: str) -> None:
    function = found(path)
    assert inspect.signature(function) == inspect.signature(function.__wrapped__)
    assert "input" in inspect.signature(function).parameters


def test_signature_of_module_call(running: Any) -> None:
    assert inspect.signature(nn.Module.__call__) == inspect.signature(inspect.unwrap(nn.Module.__call__))


@pytest.mark.parametrize("path", FUNCTIONS)
def test_functions_are_pickled_by_name(running: Any, path: str) -> None:
    function = found(path)
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def names_of(path: str) -> dict[str, Any]:
    function = found(path)
    return {name: getattr(function, name, None) for name in NAMES}


def test_functions_have_the_names_of_the_originals(bench: Any, model: nn.Module) -> None:
    paths = [*FUNCTIONS, "torch.Tensor.__floordiv__", "torch.nn.functional.adaptive_max_pool2d", "torch.norm"]
    before = {path: names_of(path) for path in paths}
    debugger = bench.open("mix", risk_level="ALL")
    debugger.start(model=model)
    during = {path: names_of(path) for path in paths}
    debugger.stop()
    assert {path: names_of(path) for path in paths} == before
    # what pickle finds the function by cannot be a name of the C module
    before["torch.Tensor.add"]["__qualname__"] = "Tensor.add"
    before["torch.relu"]["__qualname__"] = "relu"
    before["torch.nn.functional.gelu"] |= {"__module__": "torch.nn.functional"}
    before["torch.norm"]["__module__"] = "torch"
    assert during == before


OTHER_NAME = {("Tensor", "__rtruediv__")}
"""Not replaced, but called ``__rdiv__``, which is."""


def is_pickled(function: Any) -> bool:
    try:
        return callable(pickle.loads(pickle.dumps(function)))
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):  # of a built-in one without a name
        return False


def picklable() -> set[tuple[str, str]]:
    """The functions of torch that can be pickled, by where they stand."""
    owners = (torch, F, torch.Tensor, torch.distributed, torch.linalg, nn.utils)
    found = ((owner, name, getattr(owner, name)) for owner in owners for name in dir(owner))
    functions = ((owner, name, value) for owner, name, value in found if inspect.isroutine(value))
    return {(owner.__name__, name) for owner, name, function in functions if is_pickled(function)}


def test_what_could_be_pickled_still_can(bench: Any, model: nn.Module) -> None:
    before = picklable()
    assert len(before) > 1000
    bench.open("mix", risk_level="ALL").start(model=model)
    assert before - picklable() <= OTHER_NAME


def test_a_model_is_saved_and_loaded(running: Any, model: nn.Module) -> None:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    twin = torch.load(file, weights_only=False)
    assert torch.equal(twin(batch()), model(batch()))


def test_a_module_that_keeps_a_function_is_copied(running: Any) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=F.relu)
    twin = copy.deepcopy(layer.eval())
    assert torch.equal(twin(batch()[None]), layer(batch()[None]))


def test_script_and_trace(running: Any, model: nn.Module) -> None:
    expected = model(batch())
    traced = torch.jit.trace(model, batch())
    assert torch.equal(traced(batch()), expected)
    assert str(traced.inlined_graph).count("aten::") == 4
    assert torch.equal(torch.jit.script(model)(batch()), expected)


def test_scripted_functions(running: Any) -> None:
    def activated(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + F.gelu(x).sum()

    assert torch.equal(torch.jit.script(activated)(batch()), activated(batch()))


def test_a_function_of_torch_is_scripted_itself(running: Any) -> None:
    assert torch.equal(torch.jit.script(F.selu)(batch()), F.selu(batch()))
    assert torch.equal(torch.jit.script(obj=F.selu)(batch()), F.selu(batch()))


@pytest.mark.parametrize(("script", "trace"), [(torch.jit.script, torch.jit.trace)])
def test_scripted_by_names_of_before(script: Any, trace: Any, running: Any, model: nn.Module) -> None:
    """A program that has imported them itself, or looks one up in the line that makes the first model."""

    def squared(x: torch.Tensor) -> torch.Tensor:
        return torch.square(x)

    def activated(x: torch.Tensor) -> torch.Tensor:
        return squared(torch.relu(x)) + F.gelu(x).sum()

    assert script is not torch.jit.script
    assert torch.equal(script(activated)(batch()), activated(batch()))
    assert torch.equal(script(model)(batch()), model(batch()))
    assert str(trace(model, batch()).inlined_graph).count("aten::") == 4


def test_function_transforms(running: Any, model: nn.Module) -> None:
    weights = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(model, parameters, (x,)).square().sum()

    together = grad(lambda parameters: loss(parameters, batch()))(weights)
    each = vmap(grad(loss), in_dims=(None, 0))(weights, batch())
    for name in weights:
        torch.testing.assert_close(each[name].sum(0), together[name])


def test_tensors_without_data(running: Any, model: nn.Module) -> None:
    assert copy.deepcopy(model).to("meta")(batch().to("meta")).shape == (2, 2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert model(mode.from_tensor(batch())).shape == (2, 2)


def test_export(running: Any, model: nn.Module) -> None:
    program = torch.export.export(model, (batch(),))
    assert torch.equal(program.module()(batch()), model(batch()))


def test_nested_modes(running: Any, model: nn.Module) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad(), torch.autocast("cpu", enabled=False):
        assert model(batch()).dtype == torch.float32
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        result = model(batch())
    assert result.dtype == torch.bfloat16
    assert result.is_inference()
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_identity_and_type_of_functions(running: Any) -> None:
    kept = F.gelu
    assert kept is F.gelu
    assert inspect.isroutine(torch.Tensor.add)
    assert {F.gelu: "gelu"}[F.gelu] == "gelu"
    assert isinstance(torch.ones(1), torch.Tensor)
    assert torch.is_tensor(torch.ones(1))
    assert isinstance(nn.Linear(1, 1), nn.Module)
    assert callable(nn.Linear(1, 1))


def test_threads(running: Any, model: nn.Module) -> None:
    expected, results = model(batch()), []
    threads = [threading.Thread(target=lambda: results.append(model(batch()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(torch.equal(result, expected) for result in results)


def test_bare_fork(running: Any) -> None:
    child = os.fork()
    if child == 0:
        clean = not hasattr(F.gelu, "__wrapped__") and F.relu(torch.tensor([-1.0])).item() == 0.0
        os._exit(0 if clean else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Squares(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return F.relu(torch.full((2,), float(index))) ** 2


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_data_workers(running: Any, method: str) -> None:
    context = multiprocessing.get_context(method)
    loader = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context=context)
    assert [part.tolist() for part in loader] == [[[0, 0], [1, 1]], [[4, 4], [9, 9]]]
