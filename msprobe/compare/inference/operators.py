"""Functions of two frameworks under one name: by the published table, then by the bare name of the operator.

``Mint.add``, ``Torch.add``, ``Tensor.__add__`` and ``Primitive.add.Add`` are all ``add``.
"""

from __future__ import annotations

from typing import Any

from msprobe.compare.alignment.api_table import pytorch_name
from msprobe.compare.items import OUTPUT, is_tensor, leaves

_COLLECTIVES = "Distributed"
_OPERATOR_SYNONYMS = {
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
    name = _OPERATOR_SYNONYMS.get(bare, bare)
    return f"{_COLLECTIVES}.{name}" if prefix == _COLLECTIVES else f"~{name}"


def same_form(ours: Any, theirs: Any) -> bool:
    """Whether two records of function calls have tensors of the same shapes, in the same order, in and out.

    A forward call may give more after the first results: what a primitive keeps for its backward (the mean and variance
    of a normalization).
    """
    (given, made), (others_given, others_made) = _shapes(ours), _shapes(theirs)
    if given != others_given or bool(made) != bool(others_made):
        return False
    shorter = min(len(made), len(others_made))
    return made[:shorter] == others_made[:shorter]


def _shapes(body: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Of the tensors given, and of those made."""
    found: tuple[list[list[int]], list[list[int]]] = [], []
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            found[leaf.slot == OUTPUT].append(leaf.raw["shape"])
    return found
