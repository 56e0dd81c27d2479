"""Names of different frameworks that mean the same: of functions, of parameters, and of modules.

``FRAMEWORKS`` is the table of frameworks; which one recorded a dump stands in the header of its dump.json. PyTorch's
names are the common ones: where two dumps come from different frameworks, both are matched under these. Dtypes are
folded where they are compared. How the tensors of functions pair is in ``layer_inference.tensor_pairs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msprobe.compare.alignment.protocol import Renaming
from msprobe.compare.records.entries import EntryKey, is_module
from msprobe.compare.records.parameter_names import with_pytorch_parameter
from msprobe.core.naming.names import MODULE_PREFIXES
from msprobe.core.store.reader import Dump

_MINT = {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}


def pytorch_name(stem: str) -> str:
    """Return the name of the PyTorch function for that of a MindSpore one; a name that is not in the table stays.

    ``Mint.*`` and ``MintFunctional.*`` have PyTorch's names below another prefix. ``api_table.tsv`` has the others, as
    the published pairs of mindstudio-probe: ``Functional.dense`` is ``Functional.linear``.
    """
    prefix, dot, rest = stem.partition(".")
    if dot and prefix in _MINT:
        return f"{_MINT[prefix]}.{rest}"
    return _function_table().get(stem, stem)


@cache
def _function_table() -> dict[str, str]:
    text = Path(__file__).with_name("api_table.tsv").read_text(encoding="utf-8")
    pairs = (line.split("\t", 1) for line in text.splitlines()[1:] if line)
    return dict(pairs)


class FrameworkNames(NamedTuple):
    """How a framework names things.

    Args:
        packages: the packages whose frames in a call stack are the framework's own code.
        function_name: returns PyTorch's name of a function; None where functions have PyTorch's names already.
    """

    packages: tuple[str, ...]
    function_name: Callable[[str], str] | None = None


FRAMEWORKS: Mapping[str, FrameworkNames] = {
    "pytorch": FrameworkNames(("torch", "torch_npu")),
    "mindspore": FrameworkNames(("mindspore",), pytorch_name),
    "mindtorch": FrameworkNames(("msadapter",), pytorch_name),
    "onnx": FrameworkNames(("onnxruntime",)),
}
"""By the name in the header of dump.json. MindTorch has the modules of PyTorch, and functions of MindSpore;
``onnx`` are model files, with the modules of PyTorch and their own nodes."""
_DEFAULT = "pytorch"


def framework_names(dump: Dump) -> FrameworkNames:
    """Return how the framework that recorded the dump names things: as PyTorch does where it is not in the table."""
    return FRAMEWORKS.get(_name(dump), FRAMEWORKS[_DEFAULT])


def _name(dump: Dump) -> str:
    return (dump.framework or _DEFAULT).lower()


def differ(target: Dump, golden: Dump) -> bool:
    """Return whether the two dumps were recorded by different frameworks."""
    return _name(target) != _name(golden)


def translates_target(target: Dump, golden: Dump) -> bool:
    """Return whether an API mapping translates the functions of the target to those of the golden run, and not the
    other way round: it translates the side whose functions have names of their own, and the target where both have."""
    return framework_names(target).function_name is not None or framework_names(golden).function_name is None


def unknown(dump: Dump) -> str:
    """Return a sentence about a framework that is not in the table, so that its names may mean something else; "" for
    a framework of the table."""
    if _name(dump) in FRAMEWORKS:
        return ""
    document = dump.place.document
    return (
        f"{document} says it was made by {dump.framework!r}, which this version does not know: "
        "its names are read as PyTorch's"
    )


def module_path(stem: str) -> str:
    """Return the name of a module without its class; the name of a function stays as it is.

    Classes have other names in another framework (``Dense``, ``Linear``), paths are the model's own.
    """
    prefix, dot, rest = stem.partition(".")
    if not dot or prefix not in MODULE_PREFIXES:
        return stem
    path = rest.rpartition(".")[0]
    return f"{MODULE_PREFIXES[0]}.{path}" if path else MODULE_PREFIXES[0]


def parameter_names(target: EntryKey, golden: EntryKey) -> tuple[Renaming, Renaming] | None:
    """Return the item rule of modules: ``gamma`` and ``weight`` are one parameter."""
    return (with_pytorch_parameter, with_pytorch_parameter) if is_module(target) else None
