"""Operators called as objects: attributes of cells, made inside ``construct``, kept elsewhere, none of MindSpore's."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.adapters.mindspore.taps.api_tap import _attributes

X = Tensor(np.arange(4, dtype=np.float32).reshape(2, 2))
KEPT = ops.Neg()


@mindspore.ops.constexpr
def doubled(number: int) -> int:
    return number * 2


class Made(nn.Cell):
    """One primitive as an attribute, one made at each call, one kept in the module, one constant function."""

    def __init__(self) -> None:
        super().__init__()
        self.product = ops.MatMul()

    def construct(self, x: Any) -> Any:
        turned = ops.Transpose()(self.product(x, x), (1, 0))
        return ops.MatMul()(KEPT(turned), x) * doubled(1)


def train(net: Any) -> list[bytes]:
    loss, gradient = mindspore.value_and_grad(lambda x: net(x).sum())(X)
    return [loss.asnumpy().tobytes(), gradient.asnumpy().tobytes()]


def primitives(bench: Any) -> list[str]:
    return [name for name in bench.read().names() if name.startswith("Primitive.")]


FORWARD = ["product.MatMul.0", "Transpose.0", "Neg.0", "MatMul.0"]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_all_of_the_model_are_recorded_and_change_nothing(bench: Any, level: str) -> None:
    net = Made()
    plain = train(net)
    with bench.open(level).collect(net):
        assert train(net) == plain
    assert train(net) == plain
    assert primitives(bench) == [
        *(f"Primitive.{name}.forward" for name in FORWARD),
        *(f"Primitive.{name}.backward" for name in reversed(FORWARD)),
    ]
    body = bench.read().data["Primitive.Transpose.0.forward"]
    assert [node["shape"] for node in body["output"]] == [[2, 2]]
    assert body["input_args"][0] == bench.read().data["Primitive.product.MatMul.0.forward"]["output"][0]


@pytest.mark.parametrize("name", ["add_", "__imul__"])
def test_methods_that_work_in_place_have_a_backward_record(bench: Any, name: str) -> None:
    def loss(x: Any) -> Any:
        return getattr(x * 2.0, name)(x).sum()

    plain = mindspore.value_and_grad(loss)(X)
    with bench.open("L1").collect():
        recorded = mindspore.value_and_grad(loss)(X)
    assert [value.asnumpy().tobytes() for value in recorded] == [value.asnumpy().tobytes() for value in plain]
    names = bench.read().names()
    assert f"Tensor.{name}.0.forward" in names
    body = bench.read().data[f"Tensor.{name}.0.backward"]
    assert [node["shape"] for node in body["output"] if node] == [[2, 2], [2, 2]]


def test_without_a_model_there_are_none(bench: Any) -> None:
    with bench.open("L1").collect():
        Made()(X)
    assert primitives(bench) == []
    assert "Tensor.__mul__.0.forward" in bench.read().names()


def test_outside_of_the_model_they_are_recorded_beside_it(bench: Any) -> None:
    """As every other function: a loss, or what prepares the input."""
    with bench.open("L1").collect(nn.ReLU()):
        Made()(X)
    assert primitives(bench) == [
        "Primitive.MatMul.0.forward",
        "Primitive.Transpose.0.forward",
        "Primitive.Neg.0.forward",
        "Primitive.MatMul.1.forward",
    ]


def test_what_mindspores_functions_call_is_their_business(bench: Any) -> None:
    with bench.open("L1").collect(nn.ReLU()):
        ops.matmul(X[0:1, None][:, 0], X)
    assert primitives(bench) == []


def test_what_its_layers_make_is_the_models(bench: Any) -> None:
    net = nn.LSTM(2, 3)
    with bench.open("L1").collect(net):
        net(X[None])
    assert "Primitive.LSTM.0.forward" in primitives(bench)


def test_a_class_of_the_user_is_seen(bench: Any) -> None:
    class Twice(ops.MatMul):
        def __call__(self, x: Any, y: Any) -> Any:
            return super().__call__(super().__call__(x, y), y)

    with bench.open("L1").collect(nn.ReLU()):
        Twice()(X, X)
    assert primitives(bench) == ["Primitive.Twice.0.forward"]  # its own calls are inside


def test_one_of_a_general_class_has_the_name_of_its_operator(bench: Any) -> None:
    class General(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.act = ops.Primitive("ReLU")

        def construct(self, x: Any) -> Any:
            return ops.Primitive("Exp")(self.act(x))

    net = General()
    with bench.open("L1").collect(net):
        net(X)
    assert primitives(bench) == ["Primitive.act.ReLU.0.forward", "Primitive.Exp.0.forward"]


def test_a_failing_one_keeps_its_inputs_and_its_error(bench: Any) -> None:
    wide = Tensor(np.ones((3, 2), np.float32))
    with bench.open("L1").collect(nn.ReLU()):
        with pytest.raises(ValueError, match=r"MatMul|mat"):
            ops.MatMul()(X, wide)
        ops.MatMul()(X, X)
    assert "error" in bench.read().data["Primitive.MatMul.0.forward"]
    assert primitives(bench) == ["Primitive.MatMul.0.forward", "Primitive.MatMul.1.forward"]


def test_classes_are_their_own_after_stop(bench: Any) -> None:
    before = {kind: vars(kind).get("__call__") for kind in (ops.Primitive, ops.MatMul, ops.Neg)}
    debugger = bench.open("L1")
    debugger.start(nn.ReLU())
    assert all(vars(kind).get("__call__") is not call for kind, call in before.items())
    debugger.stop()
    assert {kind: vars(kind).get("__call__") for kind in before} == before


def test_a_jit_function_compiles_them_as_ever(bench: Any) -> None:
    @mindspore.jit
    def compiled(x: Any) -> Any:
        return ops.MatMul()(x, x)

    with bench.open("L1").collect(nn.ReLU()):
        assert compiled(X).asnumpy().tolist() == [[2, 3], [6, 11]]
    assert bench.read().names() == ["Jit.compiled.0.forward"]


class Constant(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.twice = doubled

    def construct(self, x: Any) -> Any:
        return x * self.twice(1)


def operators() -> Iterator[Any]:
    """Yield an operator of each class that can be made without arguments or with the number 2 for them."""
    for name in sorted(vars(ops.operations)):
        kind = getattr(ops.operations, name)
        if isinstance(kind, type) and issubclass(kind, ops.Primitive) and kind.__module__ != ops.Primitive.__module__:
            needed = [each for each in inspect.signature(kind).parameters.values() if each.default is each.empty]
            with contextlib.suppress(Exception):
                yield kind(**dict.fromkeys((each.name for each in needed), 2))


def test_every_operator_can_be_made_of_its_attributes() -> None:
    """``MaxPoolWithArgmax`` keeps its arguments in another form; no program calls it, it is deprecated."""
    made, other = 0, []
    for operator in operators():
        kind: Any = type(operator)
        attributes, made = _attributes(operator), made + 1
        try:
            again = None if attributes is None else kind(**attributes)
        except ValueError:
            again = None
        if again is None or str(again.attrs) != str(operator.attrs):
            other.append(kind.__name__)
    assert made > 400 and set(other) <= {"MaxPoolWithArgmax", "LpNorm"}


def test_a_constant_function_is_recorded_where_a_cell_holds_it(bench: Any) -> None:
    net = Constant()
    with bench.open("L1").collect(net):
        net(X)
    assert primitives(bench) == ["Primitive.twice.doubled.0.forward"]


def test_the_arguments_that_made_an_operator() -> None:
    """Also those that MindSpore forgets, because the class calls the constructor of its base class once more."""
    lrn = {"depth_radius": 2, "bias": 1.0, "alpha": 1.0, "beta": 0.75, "norm_region": "ACROSS_CHANNELS"}
    assert _attributes(ops.LRN(**lrn)) == lrn
    assert _attributes(ops.MatrixPower(n=3)) == {"n": 3} and _attributes(ops.Dropout3D(0.25)) == {"keep_prob": 0.25}
    assert _attributes(ops.ReLU()) == {}
    assert _attributes(ops.Softmax(axis=0)) == {"axis": 0}
