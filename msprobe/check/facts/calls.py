"""The records of a step as calls: names taken apart, leaves by slot, and the marks by which values are known again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import isfinite
from typing import Any, NamedTuple, cast

from msprobe.check.facts.step_facts import Tensor
from msprobe.check.facts.tensors import tensor_of
from msprobe.compare.records.entries import parent_of, path_of
from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, Leaf, is_tensor, leaves
from msprobe.trace.values import mark

PARAMETERS_GRAD = "parameters_grad"
_BACKWARD = "backward"
_LARGEST = 1.7e308


class Call(NamedTuple):
    """One record with its leaves; those of a forward call with the marks by which they are known again."""

    name: str
    place: int
    stem: str
    phase: str
    number: int
    is_module: bool
    function: str
    module: str
    parent: str
    body: Mapping[str, Any]
    given: list[Leaf]
    returned: list[Leaf]
    parameters: list[Leaf]
    given_marks: Sequence[int]
    returned_marks: Sequence[int]
    is_finite: bool

    @property
    def path(self) -> str:
        """Return the path of the module, or of the module around a function."""
        return path_of(self.stem) if self.is_module else self.module

    def argument(self, position: int, name: str) -> Any:
        """Return an argument by position or name: a number, a text or a node; None where it is not given."""
        positional, keywords = self.body.get("input_args"), self.body.get("input_kwargs")
        node: Any = None
        if isinstance(keywords, dict) and name in keywords:
            node = keywords[name]
        elif isinstance(positional, list) and position < len(positional):
            node = positional[position]
        if isinstance(node, dict) and "value" in node and not is_tensor(node):
            return node["value"]
        return node

    def tensor(self, position: int, name: str) -> Tensor | None:
        """Return an argument that is a tensor."""
        node = self.argument(position, name)
        return tensor_of(node) if is_tensor(node) else None

    @property
    def result(self) -> Tensor | None:
        """Return the first tensor that the call returns."""
        return next((tensor_of(leaf.raw) for leaf in self.returned), None)


_call = cast(Callable[[tuple[Any, ...]], Call], partial(tuple.__new__, Call))
"""Half the time of Call(...), which matters for every record of a run."""


class _Name(NamedTuple):
    """The parts of the name of a record."""

    stem: str
    phase: str
    number: int
    is_module: bool
    function: str
    path: str


@lru_cache(maxsize=1 << 16)
def _name(text: str) -> _Name | None:
    """Return the parts of a name, which all steps and ranks of a run have; None for what is no name of a record."""
    try:
        stem, phase, number = split_entry(text)
    except NameSyntaxError:
        return None
    is_module = is_module_name(text)
    return _Name(stem, phase, number or 0, is_module, stem.rpartition(".")[2], path_of(stem) if is_module else "")


def read_call(place: int, text: str, body: Mapping[str, Any], construct: Mapping[str, Any]) -> Call | None:
    """Return the call of a record; None where its name is that of no call.

    Args:
        place: the position of the record in the dump.
        text: its name.
        body: the record.
        construct: the calls around calls.
    """
    name = _name(text)
    if name is None or name.phase == PARAMETERS_GRAD:
        return None
    parent = parent_of(construct, text) or ""
    around = _name(parent) if parent else None
    given: list[Leaf] = []
    returned: list[Leaf] = []
    parameters: list[Leaf] = []
    finite = True
    for leaf in leaves(text, body):
        _, slot, raw = leaf
        if type(raw) is dict and "dtype" in raw and "shape" in raw:  # ``is_tensor``, called for every value of a run
            (given if slot == INPUT else returned if slot == OUTPUT else parameters).append(leaf)
            finite = finite and is_finite(raw)
    if parameters:
        parameters = [leaf for leaf in parameters if leaf.slot == PARAMETER]
    stem, phase, number, is_module, function, _ = name
    given_marks: Sequence[int] = ()
    returned_marks: Sequence[int] = ()
    if phase != _BACKWARD:
        given_marks = [mark(leaf.raw) for leaf in given]
        returned_marks = [mark(leaf.raw) for leaf in returned]
    return _call((
        text, place, stem, phase, number, is_module, function, "" if around is None else around.path, parent, body,
        given, returned, parameters, given_marks, returned_marks, finite,
    ))  # fmt: skip


def path_of_gradients(text: str) -> str | None:
    """Return the path of the module of which a record has the gradients of parameters; None for other records."""
    name = _name(text)
    return name.path if name is not None and name.phase == PARAMETERS_GRAD else None


def is_finite(raw: Mapping[str, Any]) -> bool:
    """Return whether the largest and smallest element are finite numbers, also where an old dump has them as texts.

    Most are: one subtraction tells so.
    """
    try:
        if raw["Max"] - raw["Min"] <= _LARGEST:
            return True
    except (KeyError, TypeError, OverflowError):
        pass
    values = raw.get("Max"), raw.get("Min")
    return not any(type(value) is str or (type(value) is float and not isfinite(value)) for value in values)
