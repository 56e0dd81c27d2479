"""Items of two frameworks' functions pair by the order of their tensors: the first with the first, and so on.

Their other arguments stand elsewhere: a shape between input and weight here, a number behind them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from msprobe.compare.alignment.frameworks import parameter_names
from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.alignment.protocol import Renaming
from msprobe.compare.items import is_tensor, leaves
from msprobe.compare.pairs import EntryKey
from msprobe.core.store.reader import Dump


@dataclass(frozen=True, slots=True)
class TensorOrder:
    """Item rule between two frameworks; parameters of modules pair by their names."""

    target: Dump
    golden: Dump

    def __call__(self, target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
        if is_module(target) or is_module(golden):
            return parameter_names(target, golden)
        ours = tensor_places(self.target.data[target.name])
        theirs = tensor_places(self.golden.data[golden.name])
        return None if ours == theirs else (partial(_placed, ours), partial(_placed, theirs))


def tensor_places(body: Any) -> dict[str, str]:
    """For each tensor of a function call, by its suffix, which tensor of its slot it is."""
    counted: dict[str, int] = {}
    found = {}
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            number = counted[leaf.slot] = counted.get(leaf.slot, -1) + 1
            found[leaf.suffix] = f"{leaf.slot} tensor {number}"
    return found


def _placed(places: dict[str, str], suffix: str) -> str:
    return places.get(suffix, suffix)
