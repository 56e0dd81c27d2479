"""Single points: any value the user hands to ``save``, and the gradients that later reach the tensors in it.

    x                    -> x.0.debug      {"type": "torch.Tensor", ...}
    {"y": y, "n": 1}     -> tree.0.debug   {"y": {...}, "n": {...}} and tree_grad.0.debug {"y": {...}, "n": null}

A point is written when it is saved. Its gradients are written as a tree of the same form, with null where none came,
when the last one has arrived or the step ends; a second backward pass replaces those of the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.capture.describe import Node
from msprobe.core.capture.parts import DEPTH_LIMIT, PARTS_LIMIT, items_of
from msprobe.core.dump.recording import Recording
from msprobe.core.dump.shield import shielded
from msprobe.core.errors import argument_text
from msprobe.core.store.journal import POINT

Path = tuple[int | str, ...]


class PointRecord:
    """The journal line of one point; unlike the body of a call, that of a point may be null."""

    __slots__ = ("_body", "_name")

    def __init__(self, name: str, body: Node) -> None:
        self._name = name
        self._body = body

    def lines(self) -> Iterator[dict[str, Any]]:
        yield {"e": self._name, "d": self._body}


class Placeholder(PointRecord):
    """The nulls that hold the place of gradients. Laid out once: again, they would hide what came meanwhile."""

    __slots__ = ("_laid",)

    def __init__(self, name: str, body: Node) -> None:
        super().__init__(name, body)
        self._laid = False

    def lines(self) -> Iterator[dict[str, Any]]:
        if not self._laid:
            yield from super().lines()
            self._laid = True


class Points:
    """The points of one step.

    Args:
        recording: where records go.
        backend: its values tell what a tensor is, its gradient tap watches single tensors.
    """

    def __init__(self, recording: Recording, backend: Backend) -> None:
        self.errors = recording.errors
        self._recording = recording
        self._backend = backend
        self._counters: dict[str, Iterator[int]] = {}
        self._incomplete: dict[int, _Gradients] = {}
        self._releases: list[Callable[[], None]] = []

    @shielded
    def save(self, name: str, value: Any, backward: bool) -> None:
        """Record ``value`` as the next point called ``name``, and with ``backward`` the gradients of its tensors."""
        number = next(self._counters.setdefault(name, itertools.count()))
        entry = f"{name}.{number}{POINT}"
        recording = self._recording
        recording.recorded += 1
        recording.sink.write(PointRecord(entry, recording.values.node(value, self._place(entry))))
        if not backward:
            return
        gradients = _Gradients(self, f"{name}_grad.{number}{POINT}")
        gradients.tree = self._watched(value, (), gradients)
        recording.sink.write(Placeholder(gradients.name, _nulls(gradients.tree)))

    def finish(self) -> None:
        """The step is over: write the gradients of points that did not get all of theirs, and watch no more."""
        for release in self._releases:
            release()
        for gradients in list(self._incomplete.values()):
            self.write(gradients)

    def write(self, gradients: _Gradients) -> None:
        self._incomplete.pop(id(gradients), None)
        self._recording.sink.write(PointRecord(gradients.name, gradients.tree))

    @shielded
    def arrived(self, gradients: _Gradients, path: Path, gradient: Any) -> None:
        """One gradient has come; the tensors of the tool itself bring none."""
        if self._recording.closed:
            return
        self._incomplete[id(gradients)] = gradients
        place = self._place(gradients.name)
        node = self._recording.values.node(gradient, place and ".".join([place, *map(str, path)]))
        gradients.put(path, node)
        if gradients.complete:
            self.write(gradients)

    def _place(self, entry: str) -> str:
        return entry if self._recording.plan.save_all else ""

    def _watched(self, value: Any, path: Path, gradients: _Gradients) -> Node:
        """A tree of nulls in the form of ``value``; each tensor in it that can have a gradient is watched."""
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
    """The gradients of one point on their way."""

    __slots__ = ("_points", "_seen", "expected", "name", "tree")

    def __init__(self, points: Points, name: str) -> None:
        self._points = points
        self._seen: set[Path] = set()
        self.name = name
        self.expected = 0
        self.tree: Node = None

    @property
    def complete(self) -> bool:
        return len(self._seen) >= self.expected

    def receiver(self, path: Path) -> Callable[[Any], None]:
        return lambda gradient: self._points.arrived(self, path, gradient)

    def put(self, path: Path, node: Node) -> None:
        self._seen.add(path)
        if not path:
            self.tree = node
            return
        inner = self.tree
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = node


def _nulls(tree: Node) -> Node:
    """A copy of a tree of nulls, so that what is filled in later does not change a record on its way."""
    if isinstance(tree, dict):
        return {key: _nulls(part) for key, part in tree.items()}
    return [_nulls(part) for part in tree] if isinstance(tree, list) else None


def point_fault(value: Any, name: Any, save_backward: Any, is_tensor: Callable[[type], bool]) -> str | None:
    """What is wrong with the arguments of ``save``, or None.

    A name is a non-empty str; a value is a tensor, int, float, str or bool, or a dict (with str keys), list or tuple
    of such values; None is refused anywhere.
    """
    if not isinstance(name, str) or not name:
        return f"name is a non-empty str, got {argument_text(name)}"
    if not isinstance(save_backward, bool):
        return f"save_backward is True or False, got {argument_text(save_backward)}"
    return _Faults(is_tensor).of(value, "variable", ())


class _Faults:
    """One walk through a value to be saved, up to what cannot be."""

    def __init__(self, is_tensor: Callable[[type], bool]) -> None:
        self._is_tensor = is_tensor
        self._room = PARTS_LIMIT

    def of(self, value: Any, where: str, around: tuple[int, ...]) -> str | None:
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
            if fault := self.of(part, f"{where}[{key!r}]", (*around, id(value))):
                return fault
        return None
