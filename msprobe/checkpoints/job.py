"""The job of ``msprobe config_check -c``: measure how similar each parameter of two checkpoints is.

Large parameters are cut into ranges, which threads share: reading a file and the compiled sums run beside each other,
and no more of a tensor is in memory than the threads look at. ``result`` describes the documents that are written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.checkpoints.load import MINDSPORE, read_checkpoint
from msprobe.checkpoints.rearranged import relation
from msprobe.checkpoints.result import CheckpointComparison, Parameter
from msprobe.checkpoints.similarity import concluded, measure_range
from msprobe.compare.records.parameter_names import pytorch_parameter
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.numerics.metrics.pair_sums import PairSums

Progress = Callable[[int, int], None]
_MOST_WORKERS = 8
_RANGE = 1 << 23
"""Elements that one thread measures at a time. Sums are added up in the order of the ranges: always the same result."""
_MOST_RANGES = 4096  # of one tensor, whatever size a damaged file claims
_AHEAD = 4
"""Parameters that are begun, for each thread, before the oldest is done."""

_Measured = Future[PairSums | str]


@dataclass(frozen=True, slots=True)
class _Begun:
    name: str
    first: LazyTensor | None
    second: LazyTensor | None
    ranges: Sequence[_Measured] = ()

    def parameter(self) -> Parameter:
        """Wait for all ranges, and return the result."""
        if self.first is None or self.second is None:
            return Parameter(self.name, self.first, self.second)
        if not self.ranges:
            return Parameter(self.name, self.first, self.second, relation=relation(self.first, self.second))
        similarity = concluded(self.first, self.second, [one.result() for one in self.ranges])
        moved = (
            similarity.equal_norms and bool(similarity.l2) and similarity.steps != 0
        )  # else nothing is read a second time
        words = relation(self.first, self.second) if moved else ""
        return Parameter(self.name, self.first, self.second, similarity, words)


def compare_checkpoints(first: Path, second: Path, progress: Progress | None = None) -> CheckpointComparison:
    """Compare two checkpoints of any layouts (see ``load``).

    Raises:
        ReadError: one of them cannot be read.
        NotComparableError: they have no name in common.
        MsprobeException: PyTorch is needed and not installed.
    """
    left, right = _in_one_naming(read_checkpoint(first), read_checkpoint(second))
    _check_common(left, right, (first, second))
    names = list(dict.fromkeys([*left.tensors, *right.tensors]))
    parameters: list[Parameter] = []
    for parameter in _measured(names, left, right):
        parameters.append(parameter)
        if progress is not None:
            progress(len(parameters), len(names))
    return CheckpointComparison(parameters, (left.layout, right.layout), (left.skipped, right.skipped))


def _in_one_naming(left: NamedTensors, right: NamedTensors) -> tuple[NamedTensors, NamedTensors]:
    """Where only one side is of MindSpore, give its parameters PyTorch's names (``gamma`` is ``weight``).

    Its numbers of ``append_dict`` are left out, as those beside the weights of PyTorch are.
    """
    if (left.layout == MINDSPORE) == (right.layout == MINDSPORE):
        return left, right
    if left.layout == MINDSPORE:
        return _without_numbers(_renamed(left), right), right
    return left, _without_numbers(_renamed(right), left)


def _without_numbers(side: NamedTensors, other: NamedTensors) -> NamedTensors:
    """Leave out what looks like a number of ``append_dict``: the format stores it as a parameter.

    It has no shape, no module in its name, and no parameter of PyTorch that it could stand for.
    """
    numbers = [
        name
        for name, tensor in side.tensors.items()
        if tensor.shape == () and "." not in name and name not in other.tensors
    ]
    kept = {name: tensor for name, tensor in side.tensors.items() if name not in numbers}
    return NamedTensors(side.layout, kept, [*side.skipped, *numbers])


def _renamed(side: NamedTensors) -> NamedTensors:
    renamed: dict[str, LazyTensor] = {}
    for name, tensor in side.tensors.items():
        head, dot, last = name.rpartition(".")
        new_name = head + dot + pytorch_parameter(last)
        renamed[name if new_name in renamed or (new_name != name and new_name in side.tensors) else new_name] = tensor
    return NamedTensors(side.layout, renamed, side.skipped)


def _measured(names: Sequence[str], left: NamedTensors, right: NamedTensors) -> Iterator[Parameter]:
    """Yield the parameters in the order of the names, a few of them ahead of the one that is waited for."""
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    pool = ThreadPoolExecutor(workers)
    try:
        begun: list[_Begun] = []
        for name in names:
            begun.append(_begin(pool, name, left.tensors.get(name), right.tensors.get(name)))
            if len(begun) >= _AHEAD * workers:
                yield begun.pop(0).parameter()
        for one in begun:
            yield one.parameter()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # also after Ctrl-C: what was not begun is left


def _begin(pool: ThreadPoolExecutor, name: str, first: LazyTensor | None, second: LazyTensor | None) -> _Begun:
    if first is None or second is None or first.shape != second.shape:
        return _Begun(name, first, second)
    step = first.numel
    if first.read_range is not None and second.read_range is not None:
        step = min(step, max(_RANGE, first.numel // _MOST_RANGES + 1))
    starts = range(0, first.numel, step) if step else [0]
    ranges = [pool.submit(measure_range, first, second, at, min(at + step, first.numel)) for at in starts]
    return _Begun(name, first, second, ranges)


def _check_common(left: NamedTensors, right: NamedTensors, paths: tuple[Path, Path]) -> None:
    if left.tensors.keys() & right.tensors.keys():
        return
    names = [next(iter(side.tensors), "nothing") for side in (left, right)]
    raise NotComparableError(
        f"{paths[0]} and {paths[1]}: no parameter has the same name in both (the first has {names[0]}, "
        f"the second {names[1]}); convert one to the naming of the other"
    )


def check_new(output: Path) -> None:
    """Check that ``output`` does not exist.

    Raises:
        MsprobeException: it exists.
    """
    if output.exists() or output.is_symlink():
        text = f"{output}: exists already; remove it or give another file with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)


def write_document(document: dict[str, Any], output: Path) -> None:
    """Write a document as JSON; a missing folder is created.

    Raises:
        OSError: it cannot be written.
    """
    make_folder(output.parent)
    write_atomic(output, [document_text(document).encode("utf-8", "backslashreplace"), b"\n"])


def document_text(document: dict[str, Any]) -> str:
    """Return a document as JSON."""
    return json.dumps(document, indent=4, ensure_ascii=False, allow_nan=False)
