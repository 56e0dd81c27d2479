"""Which tensor of a function call stands for which tensor of its partner in another framework.

The arguments of a function have another order in another framework: ``batch_norm`` of PyTorch takes the running
statistics before weight and bias, MindSpore's primitive after them; a shape stands between input and weight in one, a
number behind them in the other. So arguments that are no tensors do not count, and tensors pair by what they hold:
those that agree in the order in which they stand, then those that agree in another order, then those of equal shape,
and the rest in its order. A tensor that is wrong on one side is left over on both sides, and so pairs with what it
should be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msprobe.compare.alignment.cross_framework import parameter_names
from msprobe.compare.alignment.protocol import Renaming
from msprobe.compare.layer_inference.tensor_signature import TensorSignature, distance, tensor_signatures
from msprobe.compare.records.entries import EntryKey, is_module
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor, leaves

_AGREE = 1e-3
_Tensors = dict[str, list[tuple[str, TensorSignature]]]
"""By slot: suffix and signature of each tensor, in order."""


class TensorPairs:
    """The item rule between two frameworks: tensors of functions pair by what they hold, parameters of modules by
    name."""

    def __init__(self, target: Dump, golden: Dump) -> None:
        self.target, self.golden = target, golden

    def __call__(self, target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        """Return the renamings of the items of two paired entries; None where items of equal suffix pair."""
        if is_module(target) or is_module(golden):
            return parameter_names(target, golden)
        target_tensors = _tensors(self.target.data[target.name])
        golden_tensors = _tensors(self.golden.data[golden.name])
        target_names, golden_names = _common_names(target_tensors, golden_tensors)
        if target_names == golden_names:
            return None
        return partial(_renamed, target_names), partial(_renamed, golden_names)


def _tensors(body: Any) -> _Tensors:
    found: _Tensors = {}
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            for signature in tensor_signatures(leaf.raw, 1):
                found.setdefault(leaf.slot, []).append((leaf.suffix, signature))
    return found


def _common_names(target: _Tensors, golden: _Tensors) -> tuple[dict[str, str], dict[str, str]]:
    """Return for the tensors of both sides, by suffix, a name that partners share."""
    names: tuple[dict[str, str], dict[str, str]] = {}, {}
    for slot in target.keys() | golden.keys():
        left, right = target.get(slot, []), golden.get(slot, [])
        partners = tensor_partners([tensor for _, tensor in left], [tensor for _, tensor in right])
        for i, (suffix, _) in enumerate(left):
            names[0][suffix] = f"{slot} tensor {i}"
        for j, (suffix, _) in enumerate(right):
            names[1][suffix] = f"{slot} tensor {partners.get(j, f'{j} of the golden run')}"
    return names


def tensor_partners(target: Sequence[TensorSignature], golden: Sequence[TensorSignature]) -> dict[int, int]:
    """Return for the position of each golden tensor that of its partner (see the module docstring)."""
    partners: dict[int, int] = {}
    left, right = list(range(len(target))), list(range(len(golden)))

    def pair(fit: Callable[[int, int], bool]) -> None:
        for i in list(left):
            j = next((j for j in right if fit(i, j)), None)
            if j is not None:
                partners[j] = i
                left.remove(i)
                right.remove(j)

    pair(lambda i, j: i == j and _agree(target[i], golden[j]))
    pair(lambda i, j: _agree(target[i], golden[j]))
    pair(lambda i, j: target[i].shape == golden[j].shape)
    pair(lambda i, j: True)
    return partners


def _agree(target: TensorSignature, golden: TensorSignature) -> bool:
    apart = distance(target, golden) if target.shape == golden.shape else None
    return apart is not None and apart <= _AGREE


def _renamed(names: dict[str, str], suffix: str) -> str:
    return names.get(suffix, suffix)
