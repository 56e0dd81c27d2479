"""Two frameworks, one vocabulary: what MindSpore calls otherwise than PyTorch without meaning anything else.

Applied whenever the two sides were made by different frameworks; dtypes are folded where they are compared.

Items of two frameworks' functions pair by the order of their tensors: the first with the first, and so on.

Their other arguments stand elsewhere: a shape between input and weight here, a number behind them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from msprobe.compare.alignment.call_scope import is_module
from msprobe.compare.alignment.protocol import Renaming
from msprobe.compare.records.entries import EntryKey
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor, leaves

_MODULE, _ = MODULE_PREFIXES
MINDSPORE = frozenset({"mindspore", "mindtorch"})
_KNOWN = MINDSPORE | {"pytorch"}
_PARAMETERS = {
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
_PARAMETER_SLOTS = ("", "parameters")


def is_mindspore(dump: Dump) -> bool:
    """Whether the dump names things as MindSpore does (MindTorch has PyTorch's classes, but MindSpore's dtypes)."""
    return (dump.framework or "pytorch").lower() in MINDSPORE


def differ(target: Dump, golden: Dump) -> bool:
    """Whether the two dumps were made by different frameworks."""
    return (target.framework or "pytorch").lower() != (golden.framework or "pytorch").lower()


def unknown(dump: Dump) -> str:
    """A sentence about a framework that nobody knows here, whose names may mean something else; "" for a known one."""
    name = dump.framework
    if name is None or name.lower() in _KNOWN:
        return ""
    document = dump.place.document
    return f"{document} says it was made by {name!r}, which this version does not know: its names are read as PyTorch's"


def module_path(stem: str) -> str:
    """A module by its path: classes have other names (``Dense``, ``Linear``), paths are the model's own."""
    prefix, dot, rest = stem.partition(".")
    if not dot or prefix not in MODULE_PREFIXES:
        return stem
    path = rest.rpartition(".")[0]
    return f"{_MODULE}.{path}" if path else _MODULE


def parameter_names(target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
    """Item rule for modules: ``gamma`` and ``weight`` are one parameter."""
    return (_folded, _folded) if target.name.partition(".")[0] in MODULE_PREFIXES else None


def _folded(suffix: str) -> str:
    head, _, last = suffix.rpartition(".")
    known = _PARAMETERS.get(last)
    return f"{head}.{known}" if known and head.lstrip(".") in _PARAMETER_SLOTS else suffix


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
