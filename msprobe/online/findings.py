"""The findings of task ``free_benchmark`` as files.

free_benchmark.csv            the documented columns, a line for each result with a finding
free_benchmark_details.csv    the same lines with the verdict, the condition and the line of the program

Each stands twice: in the folder of the step and rank, and in ``dump_path`` with the lines of all steps and ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.core.backend.replaying import HeldTensor
from msprobe.core.store.safe_files import make_folder
from msprobe.precheck.appended_table import append_lines, begin_shared_table

COLUMNS = ("rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index")
FURTHER_COLUMNS = ("verdict", "condition_number", "input_error", "kernel_error", "source", "message")
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a call with a fault.

    Attributes:
        position: that of the result, or of the gradient of an argument.
        verdict: the kind of fault, one or two words.
        message: the fault, in words.
        max_rel: how far it is off, relative to its size, or a text.
        value: the result; None for one that is no tensor.
        condition, input_error, kernel_error: the condition number, the relative error that rounded inputs make, and
            that of the result; NaN where they are not known.
    """

    position: int
    verdict: str
    message: str
    max_rel: float | str
    value: HeldTensor | None = None
    condition: float = float("nan")
    input_error: float = float("nan")
    kernel_error: float = float("nan")


class FindingTables:
    """Writes findings.

    Args:
        root: ``dump_path``.
        folder: returns the folder of the step, which is renamed when the process gets its rank.
    """

    def __init__(self, root: Path, folder: Callable[[], Path]) -> None:
        self._root, self._folder = root, folder

    def add(self, head: Sequence[str], findings: Sequence[Finding], source: str) -> None:
        """Write the findings of a call.

        Args:
            head: rank, mode, stage, step and name.
            findings: its findings.
            source: the line of the program.

        Raises:
            OSError: they cannot be written.
        """
        lines = [(*head, *_cells(finding)) for finding in findings]
        further = [(*head, *_cells(each), *_further(each), source, each.message) for each in findings]
        for folder in (self._folder(), self._root):
            make_folder(folder)
            _append(folder / "free_benchmark.csv", COLUMNS, lines)
            _append(folder / "free_benchmark_details.csv", (*COLUMNS, *FURTHER_COLUMNS), further)


def _append(path: Path, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    begin_shared_table(path, columns)
    append_lines(path, lines)


def _cells(finding: Finding) -> tuple[str, ...]:
    value = finding.value
    dtype, shape = ("", "") if value is None else (value.dtype, str(list(value.values.shape)))
    return _number(finding.max_rel), dtype, shape, str(finding.position)


def _further(finding: Finding) -> tuple[str, ...]:
    figures = (finding.condition, finding.input_error, finding.kernel_error)
    return finding.verdict, *map(_number, figures)


def _number(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "" if value != value else f"{value:.{_DIGITS}g}"
