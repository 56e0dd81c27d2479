"""register_custom_api and restore_custom_api: functions of the user among the recorded ones."""

from __future__ import annotations

import collections
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.torch

X = torch.ones(3)


@pytest.fixture
def library() -> types.ModuleType:
    made = types.ModuleType("mylib")
    made.triple = lambda x: x * 3  # type: ignore[attr-defined]
    made.version = 3  # type: ignore[attr-defined]
    return made


def record(bench: Any, debugger: Any, library: Any) -> list[str]:
    debugger.start()
    library.triple(X)
    debugger.stop()
    names: list[str] = bench.read().names()
    return names


@pytest.mark.parametrize("level", ["L0", "debug"])
def test_a_level_without_functions_says_so(
    bench: Any, library: Any, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.open(level, custom_apis={"math": ["hypot"]}).register_custom_api(library, "triple")
    said = capsys.readouterr().out
    assert f"level {level} records no functions: API triple of mylib is not" in said
    assert f"custom_apis: has no effect at level {level}" in said


def test_the_module_names_the_entry(bench: Any, library: Any) -> None:
    debugger = bench.open()
    debugger.register_custom_api(library, "triple")
    assert record(bench, debugger, library) == ["mylib.triple.0.forward"]


def test_a_prefix_of_ones_own(bench: Any, library: Any) -> None:
    debugger = bench.open()
    debugger.register_custom_api(library, "triple", "Own")
    assert record(bench, debugger, library) == ["Own.triple.0.forward"]


def test_an_owner_without_name_is_custom(bench: Any) -> None:
    owner = types.SimpleNamespace(triple=lambda x: x * 3)
    debugger = bench.open()
    debugger.register_custom_api(owner, "triple")
    assert record(bench, debugger, owner) == ["Custom.triple.0.forward"]


def test_the_last_registration_counts(bench: Any, library: Any) -> None:
    debugger = bench.open()
    debugger.register_custom_api(library, "triple", "First")
    debugger.register_custom_api(library, "triple", "Second")
    assert record(bench, debugger, library) == ["Second.triple.0.forward"]


def test_registration_while_collecting(bench: Any, library: Any) -> None:
    debugger = bench.open()
    debugger.start()
    debugger.register_custom_api(library, "triple")
    library.triple(X)
    debugger.restore_custom_api(library, "triple")
    library.triple(X)
    debugger.stop()
    assert bench.read().names("mylib") == ["mylib.triple.0.forward"]


def test_restore_puts_the_original_back(bench: Any, library: Any) -> None:
    original = library.triple
    debugger = bench.open()
    debugger.register_custom_api(library, "triple")
    debugger.start()
    assert library.triple is not original
    debugger.restore_custom_api(library, "triple")
    assert library.triple is original
    debugger.stop()


def test_restoring_what_was_never_registered_is_fine(bench: Any, library: Any) -> None:
    original = library.triple
    debugger = bench.open()
    debugger.restore_custom_api(library, "triple")
    assert record(bench, debugger, library) == ["Tensor.__mul__.0.forward"]
    assert library.triple is original


def test_gradients_of_custom_apis(bench: Any, library: Any) -> None:
    debugger = bench.open()
    debugger.register_custom_api(library, "triple")
    x = X.clone().requires_grad_()
    debugger.start()
    library.triple(x).sum().backward()
    debugger.stop()
    body = bench.read().data["mylib.triple.0.backward"]
    assert (body["input"][0]["Max"], body["output"][0]["Max"]) == (1.0, 3.0)


class Kernels:
    bias = 1.0

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    @classmethod
    def of_class(cls, x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
        return x + cls.bias * by

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x + 3

    @functools.singledispatchmethod
    def by_type(self, x: object) -> object:
        return x

    @by_type.register
    def _(self, x: torch.Tensor) -> torch.Tensor:
        return x * 5

    builtin = torch.neg
    nested = collections.Counter


class Heavier(Kernels):
    bias = 10.0


CALLS: dict[str, Callable[[], Any]] = {
    "static": lambda: (Kernels.static(X), Kernels().static(X), Heavier().static(x=X)),
    "of_class": lambda: (
        Kernels.of_class(X),
        Kernels().of_class(X, by=2.0),
        Heavier.of_class(X),
        Heavier().of_class(X),
    ),
    "method": lambda: (Kernels().method(X), Kernels.method(Kernels(), X), Heavier().method(X)),
    "by_type": lambda: (Kernels().by_type(X), Heavier().by_type(X), Kernels().by_type("text")),
    "builtin": lambda: (Kernels.builtin(X), Kernels().builtin(X), Heavier().builtin(X)),
    "nested": lambda: (Kernels.nested("aab"), Kernels().nested("aab"), Heavier().nested("aab")),
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("owner", [Kernels, Heavier], ids=["own", "inherited"])
@pytest.mark.parametrize("name", CALLS)
def test_functions_of_a_class_are_called_as_they_are_written(
    bench: Any, monkeypatch: pytest.MonkeyPatch, name: str, owner: type
) -> None:
    held, expected = vars(owner).get(name), repr(CALLS[name]())
    debugger = bench.open()
    debugger.register_custom_api(owner, name, "Own")
    debugger.start()
    found = repr(CALLS[name]())
    debugger.stop()
    assert found == expected
    assert vars(owner).get(name) is held
    assert bench.read().names("Own")


@pytest.mark.parametrize("name", ["static", "of_class"])
def test_the_class_is_no_argument_in_the_record(bench: Any, name: str) -> None:
    debugger = bench.open()
    debugger.register_custom_api(Kernels, name)
    debugger.start()
    CALLS[name]()
    debugger.stop()
    calls = [call for key, call in bench.read().data.items() if key.startswith("Kernels.")]
    assert len(calls) == len(CALLS[name]())
    assert {len(call["input_args"]) + ("x" in call["input_kwargs"]) for call in calls} == {1}


def test_a_class_method_signs_as_before_while_collecting(bench: Any) -> None:
    debugger = bench.open()
    debugger.register_custom_api(Kernels, "of_class")
    before = inspect.signature(Kernels.of_class)
    debugger.start()
    assert inspect.signature(Kernels.of_class) == before
    assert Kernels.of_class.__name__ == "of_class"
    debugger.stop()


@pytest.mark.filterwarnings("ignore")  # of the compiler, about itself
@pytest.mark.parametrize("name", ["static", "of_class", "method"])
def test_compiled_code_reads_through_the_functions_of_a_class(bench: Any, name: str) -> None:
    kernels = Heavier()
    compiled = torch.compile(lambda x: getattr(kernels, name)(x) * 2, backend="eager", fullgraph=True)
    debugger = bench.open()
    debugger.register_custom_api(Kernels, name)
    debugger.start()
    found = compiled(X)
    debugger.stop()
    torch._dynamo.reset()
    assert torch.equal(found, getattr(kernels, name)(X) * 2)
