"""Names of recorded calls as frozen values; ``str(name)`` is the text in dump.json.

    Functional.relu.0.forward                  ApiName(prefix, api, call, phase)
    Module.blocks.0.mlp.MLP.backward.1         ModuleName(prefix, path, cls, phase, call)
    Module.blocks.0.mlp.MLP.parameters_grad.0  ModuleName with phase PARAMETERS_GRAD
    loss.2.debug                               DebugName(name, call)

Tensor files append ``.input.0``, ``.kwargs.key``, ``.output.1.x`` or ``.parameters.weight`` and a suffix to an entry
name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

MODULE_PREFIXES = ("Module", "Cell")
COMMUNICATION = ("Distributed.", "MintDistributed.", "communication.comm_func.")
"""How names of communication calls begin: those of PyTorch and ``comm_func``, of ``mint.distributed``, and of older
dumps."""

_PRODUCT = (
    r"linear|conv|matmul|baddbmm|addbmm|addmm|addmv|bmm|\bmm\b|\bmv\b|einsum|tensordot|bilinear|attention|dense|"
    r"batch_?mat_?mul|lstm|gru|rnn"
)


def is_module_name(name: str) -> bool:
    """Return whether the name of an entry, or a stem, is that of a module, and not of a function."""
    return name.partition(".")[0] in MODULE_PREFIXES


def is_communication(name: str) -> bool:
    """Return whether an entry is a communication call, by its name."""
    return name.startswith(COMMUNICATION) and name.endswith(".forward")


def is_product(stem: str) -> bool:
    """Return whether a function or module multiplies matrices, by the last part of its name."""
    return re.search(_PRODUCT, stem.rpartition(".")[2], re.IGNORECASE) is not None


class Phase(str, Enum):
    """The part of a training step that a record belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    PARAMETERS_GRAD = "parameters_grad"

    __str__ = str.__str__


class Slot(str, Enum):
    """The side of a call that a value belongs to; the text is the one in names of tensor files."""

    INPUT = "input"
    KWARGS = "kwargs"
    OUTPUT = "output"
    PARAMETERS = "parameters"

    __str__ = str.__str__


@dataclass(frozen=True, slots=True)
class ApiName:
    """One call of a function or tensor method; ``call`` counts per ``prefix.api`` from 0 within a step."""

    prefix: str
    api: str
    call: int
    phase: Phase

    def __str__(self) -> str:
        return f"{self.prefix}.{self.api}.{self.call}.{self.phase.value}"

    @property
    def stem(self) -> str:
        """The name without call number and phase, which all calls of one function share."""
        return f"{self.prefix}.{self.api}"

    def with_call(self, call: int) -> ApiName:
        """Return the name of another call of this function."""
        return replace(self, call=call)


@dataclass(frozen=True, slots=True)
class ModuleName:
    """One call of a module. ``call`` is None in older dumps only, where gradients of parameters have no number."""

    prefix: str
    path: str
    cls: str
    phase: Phase
    call: int | None

    def __str__(self) -> str:
        head = f"{self.stem}.{self.phase.value}"
        return head if self.call is None else f"{head}.{self.call}"

    @property
    def stem(self) -> str:
        """The name without call number and phase, which all calls of one module share."""
        return f"{self.prefix}.{self.path}.{self.cls}" if self.path else f"{self.prefix}.{self.cls}"

    def with_call(self, call: int | None) -> ModuleName:
        """Return the name of another call of this module."""
        return replace(self, call=call)


@dataclass(frozen=True, slots=True)
class DebugName:
    """One value stored with ``save``: ``name.N.debug``."""

    name: str
    call: int

    def __str__(self) -> str:
        return f"{self.name}.{self.call}.debug"

    @property
    def stem(self) -> str:
        """The name without call number."""
        return self.name

    def with_call(self, call: int) -> DebugName:
        """Return the name of another value saved under this name."""
        return replace(self, call=call)


EntryName = ApiName | ModuleName | DebugName


@dataclass(frozen=True, slots=True)
class TensorName:
    """The name of one tensor: its entry, its slot, and the path inside nested arguments."""

    entry: EntryName
    slot: Slot
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((str(self.entry), self.slot.value, *self.path))
