"""Two frameworks, one vocabulary: what MindSpore calls otherwise than PyTorch without meaning anything else.

Applied whenever the two sides were made by different frameworks; dtypes are folded where they are compared.
"""

from __future__ import annotations

from msprobe.compare.alignment.protocol import Renaming
from msprobe.compare.pairs import EntryKey
from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.core.store.reader import Dump

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
