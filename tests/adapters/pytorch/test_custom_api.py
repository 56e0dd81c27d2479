"""register_custom_api and restore_custom_api: functions of the user among the recorded ones."""

from __future__ import annotations

import types
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
