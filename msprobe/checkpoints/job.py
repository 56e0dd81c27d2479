"""The job of ``msprobe config_check -c``: measure how similar each parameter of two checkpoints is.

The result document maps each name to ``{"l2", "cos", "numel", "shape"}``. Where the two sides differ in shape,
``numel`` and ``shape`` are pairs, with null for a side that lacks the parameter, and l2 and cos are null. ``problem``
is present when a parameter cannot be compared for another reason. Parameters of the first checkpoint come first, in its
order, then those that only the second has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msprobe.checkpoints.formats.named_tensors import NamedTensors
from msprobe.checkpoints.load import read_checkpoint
from msprobe.checkpoints.similarity import Similarity, similarity
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.store.tensor_reader import LazyTensor

ParameterKind = Literal["equal", "different", "shape", "first_only", "second_only", "problem"]
Progress = Callable[[int, int], None]
_WORST = 5
_MOST_WORKERS = 8
_COUNTED: tuple[tuple[ParameterKind, str], ...] = (
    ("equal", "equal"),
    ("different", "different"),
    ("shape", "of another shape"),
    ("first_only", "only in the first"),
    ("second_only", "only in the second"),
    ("problem", "not comparable"),
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One name in the two checkpoints; a side that lacks it is None."""

    name: str
    first: LazyTensor | None
    second: LazyTensor | None
    similarity: Similarity = field(default_factory=Similarity)

    @property
    def kind(self) -> ParameterKind:
        """Return what the comparison says about this parameter."""
        if self.second is None:
            return "first_only"
        if self.first is None:
            return "second_only"
        if self.similarity.problem:
            return "problem"
        if self.first.shape != self.second.shape:
            return "shape"
        return "equal" if self.similarity.l2 == 0.0 else "different"

    def entry(self) -> dict[str, Any]:
        """Return the value of this parameter in the document."""
        numel = [None if side is None else side.numel for side in (self.first, self.second)]
        shape = [None if side is None else list(side.shape) for side in (self.first, self.second)]
        same = shape[0] == shape[1]
        entry = {
            "l2": self.similarity.l2,
            "cos": self.similarity.cos,
            "numel": numel[0] if same else numel,
            "shape": shape[0] if same else shape,
        }
        return {**entry, "problem": self.similarity.problem} if self.similarity.problem else entry

    def types(self) -> str:
        """Return both types in words when they differ, otherwise an empty text."""
        if self.first is None or self.second is None or self.first.dtype == self.second.dtype:
            return ""
        return f"{self.first.dtype} against {self.second.dtype}"

    def line(self) -> str:
        """Return the line about this parameter for a terminal."""
        name = _safe(self.name)
        if self.first is None or self.second is None:
            return f"{name}: only in the {'first' if self.second is None else 'second'}"
        if self.similarity.problem:
            return f"{name}: {self.similarity.problem}"
        if self.first.shape != self.second.shape:
            return f"{name}: shape {list(self.first.shape)} against {list(self.second.shape)}"
        cos = "none, one side is zero" if self.similarity.cos is None else f"{self.similarity.cos:.9g}"
        return f"{name}: cos {cos}, l2 {self.similarity.l2:.4g}"


@dataclass(frozen=True, slots=True)
class CheckpointComparison:
    """The parameters of two checkpoints, and the layout of each."""

    parameters: list[Parameter]
    layouts: tuple[str, str]
    skipped: tuple[list[str], list[str]]

    @property
    def same(self) -> bool:
        """Return whether all parameters are on both sides and equal."""
        return all(parameter.kind == "equal" for parameter in self.parameters)

    def document(self) -> dict[str, Any]:
        """Return the result document that the module describes."""
        return {parameter.name: parameter.entry() for parameter in self.parameters}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary, and lines about the least similar parameters."""
        for side, layout, skipped in zip(("First", "Second"), self.layouts, self.skipped, strict=True):
            example = f", such as {_safe(skipped[0])}," if skipped else ""
            rest = f"; {len(skipped)} values that are not weights{example} left out" if skipped else ""
            yield f"{side}: {layout}{rest}"
        kinds = [parameter.kind for parameter in self.parameters]
        counts = ", ".join(f"{kinds.count(kind)} {words}" for kind, words in _COUNTED if kind in kinds)
        yield f"Verdict: {'SAME' if self.same else 'DIVERGED'} ({len(kinds)} parameters: {counts})"
        if cast := [(item, types) for item in self.parameters if (types := item.types())]:
            first, types = cast[0]
            yield f"  {len(cast)} of another type, such as {_safe(first.name)}: {types}; their values are compared"
        for kind in ("problem", "first_only", "second_only", "shape", "different"):
            group = sorted((item for item in self.parameters if item.kind == kind), key=_cosine)
            yield from (f"  {parameter.line()}" for parameter in group[:_WORST])
            if len(group) > _WORST:
                yield f"  ... and {len(group) - _WORST} more {dict(_COUNTED)[kind]}"


def _safe(name: str) -> str:
    """Return a name without control characters, which could change the state of a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)


def _cosine(parameter: Parameter) -> float:
    """Return the sort key that puts the least similar parameters first."""
    return -2.0 if parameter.similarity.cos is None else parameter.similarity.cos


def compare_checkpoints(first: Path, second: Path, progress: Progress | None = None) -> CheckpointComparison:
    """Compare two checkpoints of any layouts (see ``load``).

    Raises:
        ReadError: one of them cannot be read.
        NotComparableError: they have no name in common.
        MsprobeException: PyTorch is needed and not installed.
    """
    left, right = read_checkpoint(first), read_checkpoint(second)
    _check_common(left, right, (first, second))
    names = list(dict.fromkeys([*left.tensors, *right.tensors]))
    with ThreadPoolExecutor(min(_MOST_WORKERS, os.cpu_count() or 1)) as pool:
        parameters = []
        for parameter in pool.map(lambda name: _compare_parameter(name, left, right), names):
            parameters.append(parameter)
            if progress is not None:
                progress(len(parameters), len(names))
    return CheckpointComparison(parameters, (left.layout, right.layout), (left.skipped, right.skipped))


def _compare_parameter(name: str, left: NamedTensors, right: NamedTensors) -> Parameter:
    a, b = left.tensors.get(name), right.tensors.get(name)
    return Parameter(name, a, b) if a is None or b is None else Parameter(name, a, b, similarity(a, b))


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


def write_document(comparison: CheckpointComparison, output: Path) -> None:
    """Write the document as JSON; a missing folder is created.

    Raises:
        OSError: it cannot be written.
    """
    make_folder(output.parent)
    text = json.dumps(comparison.document(), indent=4, ensure_ascii=False, allow_nan=False)
    write_atomic(output, [text.encode("utf-8", "backslashreplace"), b"\n"])
