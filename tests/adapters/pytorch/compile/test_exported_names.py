"""Nodes of exported programs: the function they come from, its arguments, and the lines around them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.compile.exported_names import (  # noqa: E402
    ModuleLevel,
    api_of,
    argument_order,
    frames_around,
)

pytestmark = pytest.mark.torch
functional = torch.nn.functional


class Calls(torch.nn.Module):
    def forward(self, x: Any, table: Any) -> Any:
        x = functional.gelu(x) + torch.sigmoid(x)
        x = 2 * x
        x = x.add(1.0) / (1 - x)
        x = torch.softmax(functional.softmax(x, -1), -1)
        parts = x.split(2, -1)
        x = torch.cat(parts, -1)
        return functional.embedding(x.argmax(-1), table)


@pytest.fixture(scope="module")
def nodes() -> list[Any]:
    program = torch.export.export(Calls(), (torch.ones(2, 4), torch.ones(4, 3)))
    return [node for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def test_functions_have_the_names_of_the_program(nodes: list[Any]) -> None:
    assert [api_of(node) for node in nodes] == [
        ("Functional", "gelu"),
        ("Torch", "sigmoid"),
        ("Tensor", "__add__"),
        ("Tensor", "__rmul__"),
        ("Tensor", "add"),
        ("Tensor", "__rsub__"),
        ("Tensor", "__truediv__"),
        ("Functional", "softmax"),
        ("Torch", "softmax"),
        ("Tensor", "split"),
        ("Torch", "cat"),
        ("Tensor", "argmax"),
        ("Functional", "embedding"),
    ]


def test_arguments_stand_as_in_the_function(nodes: list[Any]) -> None:
    assert argument_order(("Functional", "embedding"), nodes[-1]) == (1, 0)
    assert argument_order(("Functional", "softmax"), nodes[7]) == (0, 1)
    assert argument_order(("Functional", "gelu"), nodes[0]) is None  # written in C


BLOCK, LINEAR = ModuleLevel("a", "block", "Block"), ModuleLevel("b", "block.up", "Linear", of_torch=True)
OWN = (("m.py", 5, "main"), ("m.py", 10, "forward"), ("m.py", 20, "forward"))
LIBRARY = ("/x/torch/nn/modules/linear.py", 134, "forward")


def test_lines_end_where_the_module_is_called() -> None:
    frames = (*OWN, LIBRARY)
    assert frames_around(frames, [BLOCK]) == OWN[:2]
    assert frames_around(frames, [BLOCK, LINEAR]) == OWN


def test_lines_of_torch_may_be_left_out() -> None:
    assert frames_around(OWN, [BLOCK]) == OWN[:2]
    assert frames_around(OWN, [BLOCK, LINEAR]) == OWN
    assert frames_around(OWN[:2], [LINEAR]) == OWN[:2]
