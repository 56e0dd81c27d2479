"""The names of the parameters of adopted models: their paths in the cell tree, and which of them share memory.

In a list of models the path begins with the position of the model. Modules of a package over MindSpore have the same
names: they may be cells, or plain Python classes as those of PyTorch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from msprobe.adapters.mindspore.runtime_facts import is_recompute_cell, on_cpu
from msprobe.adapters.mindspore.tensors.memory import LOWEST
from msprobe.adapters.mindspore.versions import address_of_tensors

_PARTS = ("_cells", "_modules")
_PARAMETERS = ("_params", "_parameters")
_address_of = address_of_tensors()


class ParameterNames:
    """The names of parameters; models are held weakly."""

    def __init__(self) -> None:
        self._models: dict[int, tuple[weakref.ref[Any], str]] = {}

    def add(self, head: str, model: Any) -> None:
        """Name the parameters of ``model``; ``head`` is the prefix of the names of its modules, ``Cell.0``."""
        position = head.partition(".")[2]
        self._models[id(model)] = weakref.ref(model), f"{position}." if position else ""

    def all(self) -> Iterator[tuple[str, Any]]:
        """Yield every parameter as it is now, one that has several names with each of them."""
        for reference, prefix in list(self._models.values()):
            model = reference()
            for path, module in _modules(model, prefix, ()) if model is not None else ():
                yield from ((path + key, parameter) for key, parameter in own_parameters(module))

    def once(self) -> list[tuple[str, Any]]:
        """Return every parameter once, with its first name."""
        found: dict[int, tuple[str, Any]] = {}
        for name, parameter in self.all():
            found.setdefault(id(parameter), (name, parameter))
        return list(found.values())

    def of(self, parameters: Iterable[Any]) -> Iterator[str | None]:
        """Yield the first name of each of ``parameters``.

        One that is no parameter of an adopted model has the name that MindSpore gave it, or None without one.
        """
        names = {id(parameter): name for name, parameter in self.once()}
        for parameter in parameters:
            own = getattr(parameter, "name", None)
            yield names.get(id(parameter), None if own is None else str(own))

    def shared(self) -> list[list[str]]:
        """Return the names of parameters that are one object, or begin at one address, in groups of two and more.

        Addresses are compared on a CPU, from MindSpore 2.8 on.
        """
        groups: dict[int, list[str]] = {}
        find_address = _address_of if on_cpu() else None
        for name, parameter in self.all():
            address = 0 if find_address is None or 0 in parameter.shape else find_address(parameter)
            groups.setdefault(address if address > LOWEST else id(parameter), []).append(name)
        return [names for names in groups.values() if len(names) > 1]


def own_parameters(module: Any) -> list[tuple[str, Any]]:
    """Return the parameters of a module itself, from the attribute of cells or of PyTorch's modules."""
    return _held(module, _PARAMETERS)


def _modules(module: Any, path: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield a module and those below it with the beginning of their parameters' names, as often as they have a name."""
    yield path, module
    for key, part in _held(module, _PARTS):
        if not is_recompute_cell(part) and not any(part is outer for outer in (*above, module)):
            yield from _modules(part, f"{path}{key}.", (*above, module))


def _held(module: Any, holders: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Return what the first of ``holders`` that the module has holds."""
    own = vars(module)
    for holder in holders:
        held = own.get(holder)
        if held:
            return [(name, part) for name, part in held.items() if part is not None]
    return []
