"""Read the csv files of a training monitor as facts of steps: parameters before and after the step, and gradients.

A folder belongs to one rank (``msprobe.trend.monitor_files`` says which files and layouts there are).
``monitor_folders`` finds them and ``read_monitor`` reads one; nothing else of the check knows these files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.check.facts.step_facts import Parameter, StepFacts, Tensor
from msprobe.check.findings import Finding
from msprobe.trend.monitor_files import MONITORS, MonitorFile, files_of, find_files

if TYPE_CHECKING:
    from msprobe.trend.monitor_rows import Form

LEVEL = "monitor"
_SOURCES = ("param_origin", "param_updated", "grad_reduced", "grad_unreduced")
_SECOND = tuple(f"{MONITORS[source][0]}_step" for source in _SOURCES)


@dataclass
class _Step:
    """What the rows of one step say of each parameter, by the kind of the row."""

    values: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    wrong: list[tuple[str, str]] = field(default_factory=list)


def monitor_folders(path: Path) -> list[tuple[Path, int]]:
    """Return the folders with files of a monitor at or below a path, each with the number of its rank, which is 0 where
    no name says it."""
    if not path.is_dir():
        return []
    named = dict.fromkeys((file.run, file.rank) for file in find_files(path, 1) if _has_parameters(file))
    return list(named) or [(path, 0)] * any(map(_has_parameters, files_of(path, 0)))


def _has_parameters(file: MonitorFile) -> bool:
    """Return whether a file has values of parameters or of their gradients."""
    return file.metric in _SOURCES or (not file.metric and file.path.name.startswith(_SECOND))


def read_monitor(folder: Path, rank: int) -> list[StepFacts]:
    """Return the facts of every step that the files of one rank describe.

    Raises:
        ReadError: a file cannot be read, or has other columns.
    """
    from msprobe.trend.monitor_rows import CsvRows  # not free, and only wanted for such files

    steps: dict[int, _Step] = {}
    files = sorted((file for file in files_of(folder, rank) if _has_parameters(file)), key=lambda file: file.order)
    for point, form in (row for file in files for row in CsvRows(file).tensors()):
        facts, tensor, name = steps.setdefault(point.step, _Step()), _tensor(point.values, form), point.target[0]
        facts.values.setdefault(point.metric, {})[name] = tensor
        if (point.values.get("nans") or 0) > 0 or not tensor.is_finite or math.isinf(tensor.norm):
            facts.wrong.append((name, point.metric))
    return [_facts(step, rank, folder, steps[step]) for step in sorted(steps)]


def _tensor(values: Mapping[str, float | None], form: Form) -> Tensor:
    shape = tuple(int(length) for length in re.findall(r"\d+", form.shape))
    found = (math.nan if (value := values.get(name)) is None else value for name in ("max", "min", "mean", "norm"))
    largest, smallest, mean, norm = found
    if "max" not in values or "min" not in values:  # not asked for, so nothing says that they are not finite
        largest = smallest = 0.0 if norm == norm else norm
    return Tensor(form.dtype.removeprefix("torch."), shape, largest, smallest, mean, norm, math.nan)


def _facts(step: int, rank: int, folder: Path, found: _Step) -> StepFacts:
    before, after = found.values.get("param_origin", {}), found.values.get("param_updated", {})
    gradients = found.values.get("grad_reduced", {}) or found.values.get("grad_unreduced", {})
    names = dict.fromkeys([*before, *after, *gradients])
    wrong = [
        Finding(
            "non_finite",
            f"the monitor has NaN or infinity in {what} of {name}; record the step at level mix to see where it arises",
            "certain" if what.startswith("param") else "possible",
            step,
            rank,
            name.rpartition(".")[0] or None,
            name,
        )
        for name, what in sorted(found.wrong, key=lambda one: not one[1].startswith("param"))[:1]
    ]
    return StepFacts(
        step=step,
        rank=rank,
        document=str(folder),
        level=LEVEL,
        framework="",
        entries=len(names),
        has_backward=bool(gradients),
        parameters={
            name: Parameter(
                requires_grad=True, module=name.rpartition(".")[0], used=before.get(name), left=after.get(name)
            )
            for name in names
        },
        gradients={name: [tensor] for name, tensor in gradients.items()},
        local=wrong,
    )
