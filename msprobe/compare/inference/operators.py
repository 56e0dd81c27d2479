"""Functions of two frameworks under one name: by the published table, then by the bare name of the operator.

``Mint.add``, ``Torch.add``, ``Tensor.__add__`` and ``Primitive.add.Add`` are all ``add``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from msprobe.compare.alignment.api_table import pytorch_name
from msprobe.compare.items import OUTPUT, is_tensor, leaves

_COLLECTIVES = "Distributed"
_SYNONYMS = {
    "truediv": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "batchmatmul": "matmul",
    "bmm": "matmul",
    "swapaxes": "transpose",
    "reducemean": "mean",
    "reducesum": "sum",
    "logicalor": "or",
    "logicaland": "and",
    "flashattentionscore": "fusionattention",
}


def operator(stem: str) -> str:
    """The name under which both frameworks' spellings of a function meet; communication keeps its prefix."""
    translated = pytorch_name(stem)
    prefix, _, rest = translated.partition(".")
    bare = rest.rpartition(".")[2].removeprefix("npu_").replace("_", "").lower()
    name = _SYNONYMS.get(bare, bare)
    return f"{_COLLECTIVES}.{name}" if prefix == _COLLECTIVES else f"~{name}"


def same_form(ours: Any, theirs: Any) -> bool:
    """Whether two records of function calls have tensors of the same shapes, in the same order, in and out."""
    return all(left == right for left, right in zip_longest(_shapes(ours), _shapes(theirs)))


def _shapes(body: Any) -> Iterator[tuple[bool, list[int]]]:
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            yield leaf.slot == OUTPUT, leaf.raw["shape"]


def tensor_places(body: Any) -> dict[str, str]:
    """For each tensor of a function call, by its suffix, which tensor of its slot it is."""
    counted: dict[str, int] = {}
    found = {}
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            number = counted[leaf.slot] = counted.get(leaf.slot, -1) + 1
            found[leaf.suffix] = f"{leaf.slot} tensor {number}"
    return found
