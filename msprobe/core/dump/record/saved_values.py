"""Values that the user hands to ``save``, and the gradients that later reach the tensors in them.

    x                    -> x.0.debug      {"type": "torch.Tensor", ...}
    {"y": y, "n": 1}     -> tree.0.debug   {"y": {...}, "n": {...}} and tree_grad.0.debug {"y": {...}, "n": null}

A value is written when it is saved. Its gradients are written as a tree of the same form, with null where none arrived,
when the last one has arrived or the step ends; a second backward pass replaces those of the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.containers import DEPTH_LIMIT, PARTS_LIMIT, items_of
from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.error_boundary import records
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.errors import argument_text
from msprobe.core.store.journal import POINT

_Path = tuple[int | str, ...]


class SavedValueRecord:
    """The journal line of one saved value; unlike the body of a call, its body may be null."""

    __slots__ = ("_body", "_name")

    def __init__(self, name: str, body: Node) -> None:
        self._name = name
        self._body = body

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record."""
        yield {"e": self._name, "d": self._body}


class Placeholder(SavedValueRecord):
    """The nulls in place of gradients that are still to come.

    It has a line only once: written again, it would hide the gradients that arrived meanwhile.
    """

    __slots__ = ("_written",)

    def __init__(self, name: str, body: Node) -> None:
        super().__init__(name, body)
        self._written = False

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the journal line of the record, at the first call only."""
        if not self._written:
            yield from super().lines()
            self._written = True


class SavedValues:
    """The saved values of one step.

    Args:
        recorder: takes the records.
        backend: its values tell what a tensor is, its gradient tap watches single tensors.
    """

    def __init__(self, recorder: StepRecorder, backend: Backend) -> None:
        self.errors = recorder.errors
        self.runtime = recorder.runtime
        self._recorder = recorder
        self._backend = backend
        self._counters: dict[str, Iterator[int]] = {}
        self._incomplete: dict[int, _Gradients] = {}
        self._releases: list[Callable[[], None]] = []

    @records
    def save(self, name: str, value: Any, backward: bool) -> None:
        """Record ``value`` as the next one called ``name``, and with ``backward`` the gradients of its tensors."""
        number = next(self._counters.setdefault(name, itertools.count()))
        entry = f"{name}.{number}{POINT}"
        recorder = self._recorder
        recorder.record_count += 1
        recorder.sink.write(SavedValueRecord(entry, recorder.describer.node(value, self._save_name(entry))))
        if not backward:
            return
        gradients = _Gradients(self, f"{name}_grad.{number}{POINT}")
        gradients.tree = self._watched(value, (), gradients)
        recorder.sink.write(Placeholder(gradients.name, _nulls(gradients.tree)))

    def finish(self) -> None:
        """End the step: write the incomplete gradients of values, and watch no more."""
        for release in self._releases:
            release()
        for gradients in list(self._incomplete.values()):
            self.write(gradients)

    def write(self, gradients: _Gradients) -> None:
        """Write the gradients of one value."""
        self._incomplete.pop(id(gradients), None)
        self._recorder.sink.write(SavedValueRecord(gradients.name, gradients.tree))

    @records
    def add_gradient(self, gradients: _Gradients, path: _Path, gradient: Any) -> None:
        """Take the gradient of the tensor at ``path``; tensors of the tool itself bring none."""
        if self._recorder.closed:
            return
        self._incomplete[id(gradients)] = gradients
        prefix = self._save_name(gradients.name)
        node = self._recorder.describer.node(gradient, prefix and ".".join([prefix, *map(str, path)]))
        gradients.put(path, node)
        if gradients.complete:
            self.write(gradients)

    def _save_name(self, entry: str) -> str:
        return entry if self._recorder.plan.save_all else ""

    def _watched(self, value: Any, path: _Path, gradients: _Gradients) -> Node:
        """Return a tree of nulls in the form of ``value``; watch each tensor in it that can have a gradient."""
        if len(path) >= DEPTH_LIMIT:
            return None
        if isinstance(value, dict):
            return {str(key): self._watched(part, (*path, str(key)), gradients) for key, part in items_of(value)}
        if isinstance(value, (list, tuple)):
            return [self._watched(part, (*path, number), gradients) for number, part in items_of(value)]
        if self._backend.values.is_tensor(type(value)) and self._backend.gradients is not None:
            release = self._backend.gradients.watch(value, gradients.receiver(path))
            if release is not None:
                self._releases.append(release)
                gradients.expected += 1
        return None


class _Gradients:
    """The gradients of one saved value, as they arrive."""

    __slots__ = ("_arrived", "_values", "expected", "name", "tree")

    def __init__(self, values: SavedValues, name: str) -> None:
        self._values = values
        self._arrived: set[_Path] = set()
        self.name = name
        self.expected = 0
        self.tree: Node = None

    @property
    def complete(self) -> bool:
        """Whether the last gradient has arrived."""
        return len(self._arrived) >= self.expected

    def receiver(self, path: _Path) -> Callable[[Any], None]:
        """Return the function that takes the gradient of the tensor at ``path``."""
        return lambda gradient: self._values.add_gradient(self, path, gradient)

    def put(self, path: _Path, node: Node) -> None:
        """Put the node of a gradient into the tree."""
        self._arrived.add(path)
        if not path:
            self.tree = node
            return
        inner = self.tree
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = node


def _nulls(tree: Node) -> Node:
    """Return a copy of a tree of nulls: a gradient that arrives later must not change a record that is not written."""
    if isinstance(tree, dict):
        return {key: _nulls(part) for key, part in tree.items()}
    return [_nulls(part) for part in tree] if isinstance(tree, list) else None


def save_fault(value: Any, name: Any, save_backward: Any, is_tensor: Callable[[type], bool]) -> str | None:
    """Return what is wrong with the arguments of ``save``, or None.

    A name is a non-empty str; a value is a tensor, int, float, str or bool, or a dict (with str keys), list or tuple
    of such values; None is refused anywhere.
    """
    if not isinstance(name, str) or not name:
        return f"name is a non-empty str, got {argument_text(name)}"
    if not isinstance(save_backward, bool):
        return f"save_backward is True or False, got {argument_text(save_backward)}"
    return _FaultSearch(is_tensor).first(value, "variable", ())


class _FaultSearch:
    """One walk through a value to be saved, up to the first part that cannot be saved."""

    def __init__(self, is_tensor: Callable[[type], bool]) -> None:
        self._is_tensor = is_tensor
        self._room = PARTS_LIMIT

    def first(self, value: Any, where: str, around: tuple[int, ...]) -> str | None:
        """Return the first fault in ``value``, which stands at ``where``, inside containers of these identities."""
        if isinstance(value, (dict, list, tuple)):
            return self._inside(value, where, around)
        if isinstance(value, (int, float, str)) or self._is_tensor(type(value)):
            return None
        return (
            f"{where} is {type(value).__name__}; "
            "tensors, int, float, str, bool, and dicts and lists of them can be saved"
        )

    def _inside(self, value: Any, where: str, around: tuple[int, ...]) -> str | None:
        if id(value) in around or len(around) >= DEPTH_LIMIT:
            return f"{where} contains itself, or is nested deeper than {DEPTH_LIMIT} levels"
        for key, part in items_of(value):
            self._room -= 1
            if self._room < 0:
                return f"variable has more than {PARTS_LIMIT} parts"
            if isinstance(value, dict) and not isinstance(key, str):
                return f"{where} has the key {argument_text(key)}; keys are str"
            if fault := self.first(part, f"{where}[{key!r}]", (*around, id(value))):
                return fault
        return None
