"""Records put together from single values that a compiled graph hands over in the order it happens to run.

A value comes with its spot (which call of which module, and where in it) and the number of the graph run it belongs to.
Which call it is follows when the runs are over: the forward calls of a module count up, and the backward pass of a run
meets them last call first, as a stack. Until then files of tensors have provisional names.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.judging import tensor_nodes
from msprobe.core.dump.record import CallRecord
from msprobe.core.dump.recording import Recording
from msprobe.core.log import logger, once
from msprobe.core.store.layout import file_name

Path = tuple[int | str, ...]
FORWARD, BACKWARD, PARAMETERS_GRAD = "forward", "backward", "parameters_grad"
_PLACES = {"input_args": "input", "input_kwargs": "kwargs"}
_SECTIONS: dict[str, dict[str, type]] = {
    FORWARD: {"input_args": list, "input_kwargs": dict, "output": list, "parameters": dict},
    BACKWARD: {"input": list, "output": list},
    PARAMETERS_GRAD: {"": dict},
}
_INPUTS = ("input_args", "input_kwargs", "input")


@dataclass(frozen=True, slots=True)
class Spot:
    """One tensor of the calls of one module.

    ``section`` is the key in the entry of dump.json, ``path`` the way inside it. A ``spare`` value repeats a forward
    one in the backward pass, for graphs that leave out the forward value as nobody needs it.
    """

    stem: str
    phase: str
    section: str
    path: Path
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """A module in the tree, and the modules around it, nearest first, each by the stem of its names."""

    stem: str
    around: Sequence[str]


@dataclass(slots=True)
class _Value:
    spot: Spot
    run: int
    node: Node


class _Calls:
    """The calls of one module in one step: how many there were, and those whose backward has not come yet."""

    def __init__(self) -> None:
        self.total = 0
        self._waiting: list[int] = []

    def number(self, values: Sequence[_Value]) -> Iterator[tuple[_Value, int]]:
        """The call number of every value of one run."""
        seen: Counter[Spot] = Counter()
        turns = []
        for value in values:
            turns.append(seen[value.spot])
            seen[value.spot] += 1
        forward = max((count for spot, count in seen.items() if _counts_up(spot)), default=0)
        backward = max((count for spot, count in seen.items() if _counts_down(spot)), default=0)
        first = self.total
        self.total += max(forward, backward - len(self._waiting))
        self._waiting += range(first, self.total)
        met = [self._waiting.pop() for _ in range(backward)]
        for value, turn in zip(values, turns, strict=True):
            yield value, met[turn] if _counts_down(value.spot) else first + turn


class Assembly:
    """The values of one step on their way to records. ``add`` may be called from any thread.

    Args:
        recording: measures the values and takes the records.
        construct: whether records have a place in construct.json.
    """

    def __init__(self, recording: Recording, construct: bool) -> None:
        self._recording = recording
        self._construct = construct
        self._saves = recording.plan.save_all or recording.selection.tensors is not None
        self._lock = threading.Lock()
        self._values: list[_Value] = []
        self._calls: dict[str, _Calls] = defaultdict(_Calls)
        self._gradients: Counter[Spot] = Counter()
        self._tree: Sequence[Branch] = ()
        self._serial = 0

    def add(self, spot: Spot, run: int, tensor: Any) -> None:
        """Measure one value and keep what is to be said of it."""
        with self._lock:
            self._serial += 1
            place = f"{spot.stem}.{spot.phase}.value{self._serial}" if self._saves else ""
            node = self._recording.values.node(tensor, place)
            self._values.append(_Value(spot, run, node))

    def flush(self, tree: Sequence[Branch] = ()) -> None:
        """Write the records of what has arrived: forward calls in the order of ``tree``, then what came back.

        ``tree`` names a module before those inside it; as in a dynamic graph, the inner calls are written first.
        """
        with self._lock:
            self._tree = tree or self._tree
            values, self._values = self._values, []
        if not values:
            return
        if self._recording.tensors is not None:
            self._recording.tensors.settle()  # files get their names below
        bodies = self._bodies(values)
        for phase, branches in (
            (FORWARD, _inner_first(self._tree)),
            (BACKWARD, list(reversed(self._tree))),
            (PARAMETERS_GRAD, self._tree),
        ):
            for branch in branches:
                for number in sorted(bodies.get((branch.stem, phase), {})):
                    self._write(branch, phase, number, bodies[branch.stem, phase][number])

    def _bodies(self, values: Sequence[_Value]) -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
        """The values by module, phase, call number, section and path."""
        found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        spares: list[tuple[_Value, int]] = []
        for value, number in self._numbered(values):
            if value.spot.spare:
                spares.append((value, number))
                continue
            sections = found.setdefault((value.spot.stem, value.spot.phase), {}).setdefault(number, {})
            sections.setdefault(value.spot.section, {})[value.spot.path] = value.node
        for value, number in spares:
            sections = found.setdefault((value.spot.stem, FORWARD), {}).setdefault(number, {})
            paths = sections.setdefault(value.spot.section, {})
            if value.spot.path in paths:
                self._forget(value.node)
            else:
                paths[value.spot.path] = value.node
        return found

    def _numbered(self, values: Sequence[_Value]) -> Iterator[tuple[_Value, int]]:
        runs: dict[tuple[int, str], list[_Value]] = {}
        met = Counter((value.run, value.spot) for value in values)
        for value in values:
            if value.spot.phase != PARAMETERS_GRAD:
                runs.setdefault((value.run, value.spot.stem), []).append(value)
            elif met[value.run, value.spot] == 1:
                yield value, self._gradients[value.spot]
                self._gradients[value.spot] += 1
            else:
                self._forget(value.node)
                if once(("gradient in parts", value.spot)):
                    logger.warning(
                        "%s: the gradient of %s comes in parts (control flow, recomputation) and is not recorded",
                        value.spot.stem,
                        value.spot.path[0],
                    )
        for (_, stem), of_run in sorted(runs.items(), key=lambda item: item[0][0]):
            yield from self._calls[stem].number(of_run)

    def _write(self, branch: Branch, phase: str, number: int, sections: dict[str, Any]) -> None:
        recording, name = self._recording, f"{branch.stem}.{phase}.{number}"
        listed = recording.selection.listed
        if not recording.in_scope(name) or not (listed is None or listed(name)):
            recording.pass_over(name)
            for paths in sections.values():
                for node in paths.values():
                    self._forget(node)
            return
        self._settle_files(name, sections)
        record = CallRecord(name, {})
        if phase == PARAMETERS_GRAD:
            record.body = {str(path[0]): [node] for path, node in sections[""].items()}
        else:
            modes = recording.modes
            for section, kind in _SECTIONS[phase].items():
                if modes.input if section in _INPUTS else modes.output:
                    assert record.body is not None
                    record.body[section] = _tree(sections.get(section, {}), kind)
            if self._construct:
                record.parent = self._parent(branch, phase, number)
        recording.finish(record)

    def _settle_files(self, name: str, sections: dict[str, Any]) -> None:
        """Give the files of an entry their names, or remove them when its tensors are not kept."""
        kept = self._recording.place(name)
        for section, paths in sections.items():
            part = [_PLACES.get(section, section)] if section else []
            for path, node in paths.items():
                if kept:
                    self._settle(node, ".".join([name, *part, *(str(step) for step in path)]))
                else:
                    self._forget(node)

    def _parent(self, branch: Branch, phase: str, number: int) -> str | None:
        """The call around this one: calls of a module are spread evenly over those of the module around it."""
        for stem in branch.around:
            calls = self._calls.get(stem)
            if calls is not None and calls.total:
                return f"{stem}.{phase}.{number * calls.total // max(self._calls[branch.stem].total, 1)}"
        return None

    def _settle(self, node: Node, place: str) -> None:
        """Give the file of a tensor its name."""
        tensors = self._recording.tensors
        for tensor in tensor_nodes(node):
            if tensors is not None and tensors.folder is not None and "data_name" in tensor:
                name = file_name(place, tensors.ops.suffix)
                os.replace(tensors.folder / tensor["data_name"], tensors.folder / name)
                tensor["data_name"] = name

    def _forget(self, node: Node) -> None:
        tensors = self._recording.tensors
        for tensor in tensor_nodes(node):
            if tensors is not None and tensors.folder is not None and "data_name" in tensor:
                (tensors.folder / tensor.pop("data_name")).unlink(missing_ok=True)


def _inner_first(tree: Sequence[Branch]) -> list[Branch]:
    found: list[Branch] = []
    waiting: list[Branch] = []
    for branch in tree:
        while waiting and waiting[-1].stem not in branch.around:
            found.append(waiting.pop())
        waiting.append(branch)
    return found + waiting[::-1]


def _counts_up(spot: Spot) -> bool:
    return spot.phase == FORWARD and not spot.spare


def _counts_down(spot: Spot) -> bool:
    return spot.phase == BACKWARD or spot.spare


def _tree(leaves: dict[Path, Node], kind: type) -> Node:
    """Lists and dicts with each leaf at its path, and null where a list has nothing."""
    below: dict[int | str, dict[Path, Node]] = {}
    for path, node in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = node
    parts = {step: inner[()] if () in inner else _tree(inner, _kind(inner)) for step, inner in below.items()}
    if kind is dict:
        return dict(parts)
    length = 1 + max((step for step in parts if isinstance(step, int)), default=-1)
    return [parts.get(position) for position in range(length)]


def _kind(inner: dict[Path, Node]) -> type:
    return list if all(isinstance(path[0], int) for path in inner) else dict
