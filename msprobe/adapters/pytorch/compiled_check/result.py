"""What the check of compiled modules found: differences by module, a table of them, and the documented csv file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.compiled_check.eager_run import WrongCall
from msprobe.adapters.pytorch.compiled_check.tensor_diff import TensorDiff
from msprobe.adapters.pytorch.compiled_check.wrong_node import WrongNode
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.numerics.array_verdict import judge_arrays
from msprobe.report.csv_table import small_table

COLUMNS = (
    "module_name",
    "check_type",
    "tensor_index",
    "status",
    "max_abs_diff",
    "mean_abs_diff",
    "max_rel_diff",
    "shape",
    "note",
)
CHECKS = ("fwd_input", "fwd_output", "grad_output", "grad_input", "grad_param")


@dataclass(slots=True)
class ModuleDiff:
    """What was compared of one call of a module; None where nothing was."""

    name: str
    fwd_input: list[TensorDiff | None] | None = None
    fwd_output: list[TensorDiff | None] | None = None
    grad_output: list[TensorDiff | None] | None = None
    grad_input: list[TensorDiff | None] | None = None
    grad_param: list[TensorDiff | None] | None = None
    note: str = ""
    parameters: tuple[str, ...] = ()
    """The names of the parameters of ``grad_param``."""
    is_compared: bool = True
    """Whether the comparison came to its end."""
    call: WrongCall | None = None
    """The call, of a module that is wrong: what ``PrecisionChecker.locate`` makes again."""

    def named(self, kind: str, index: int) -> str:
        """Return a tensor in words: ``fwd_output 0``, ``grad_param weight``."""
        return f"{kind} {self.parameters[index] if kind == 'grad_param' and self.parameters else index}"

    @property
    def passes(self) -> bool:
        """Return whether the call was compared and its tensors agree."""
        return self.is_compared and all(found.allclose for _, _, found in self.checks)

    @property
    def checks(self) -> Iterator[tuple[str, int, TensorDiff]]:
        """Yield kind, position and difference of each tensor that was compared."""
        for kind in CHECKS:
            for index, found in enumerate(getattr(self, kind) or ()):
                if found is not None:
                    yield kind, index, found


@dataclass(slots=True)
class CompareResult:
    """The result of one check.

    Attributes:
        loss_eager, loss_compiled: the losses; NaN where there is none.
        diffs: the modules in the order of their calls.
        cast_dtype: the type that inputs were cast to.
        wrong_node: the first wrong node of the first wrong module, where it was looked for and found.
        node_note: why there is none, where it was looked for.
    """

    loss_eager: float = math.nan
    loss_compiled: float = math.nan
    diffs: list[ModuleDiff] = field(default_factory=list)
    cast_dtype: torch.dtype | None = None
    wrong_node: WrongNode | None = None
    node_note: str = ""

    @property
    def loss_diff(self) -> float:
        """Return the difference of the losses."""
        return abs(self.loss_eager - self.loss_compiled)

    @property
    def compared(self) -> int:
        """Return how many tensors were compared."""
        return sum(1 for module in self.diffs for _ in module.checks)

    @property
    def first_wrong(self) -> ModuleDiff | None:
        """Return the first module with a tensor that does not agree, or that could not be compared."""
        return next((one for one in self.diffs if not one.passes), None)

    @property
    def all_pass(self) -> bool:
        """Return whether tensors were compared and all of them agree: nothing compared is no pass."""
        return self.compared > 0 and self.first_wrong is None

    @property
    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        for module in self.diffs:
            wrong = [(kind, index, found) for kind, index, found in module.checks if not found.allclose]
            word = "FAIL" if not module.passes else "pass" if any(module.checks) else "none"
            yield f"  {word}  {module.name}" + (f"  ({module.note})" if module.note else "")
            for kind, index, found in wrong:
                yield f"        {module.named(kind, index)}: {found.note}; largest difference {found.max_abs:.4g}"
        if self.compared == 0:
            yield "RESULT: NOTHING COMPARED: no wrapped module was called; call install() before the forward pass"
        elif self.first_wrong is None:
            yield f"RESULT: ALL PASS ({self.compared} tensors of {len(self.diffs)} calls)"
        else:
            yield f"RESULT: FAIL, first at {self.first_wrong.name}"
            yield from self._node_lines

    @property
    def _node_lines(self) -> Iterator[str]:
        titles = ("node:  ", "source:", "reason:")
        found = [] if self.wrong_node is None else self.wrong_node.words
        yield from (f"  {title} {text}" for title, text in zip(titles, found, strict=False) if text)
        if self.node_note:
            yield f"  node:   not found: {self.node_note}"

    def write(self, path: Path) -> None:
        """Write the csv file of nine columns.

        Raises:
            OSError: it cannot be written.
        """
        make_folder(path.parent)
        write_atomic(path, [small_table(COLUMNS, self._rows()).encode()])

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        if not math.isnan(self.loss_compiled):
            yield self._loss_row()
        for module in self.diffs:
            if not module.is_compared:
                yield module.name, "call", 0, "FAIL", "N/A", "N/A", "N/A", "N/A", module.note
            for kind, index, found in module.checks:
                numbers = (f"{value:.6e}" for value in (found.max_abs, found.mean_abs, found.max_rel))
                status = "PASS" if found.allclose else "FAIL"
                which = module.named(kind, index) if kind == "grad_param" else ""
                note = "; ".join(part for part in (which, found.note, module.note) if part)
                yield module.name, kind, index, status, *numbers, str(found.shape), note

    def _loss_row(self) -> tuple[Any, ...]:
        if math.isnan(self.loss_eager):
            return "LOSS", "loss", 0, "PASS", "N/A", "N/A", "N/A", f"compiled={self.loss_compiled:.6f}", "single pass"
        agrees = judge_arrays(np.array(self.loss_compiled), np.array(self.loss_eager), "float32").level == "pass"
        shown = f"eager={self.loss_eager:.6f} compiled={self.loss_compiled:.6f}"
        return "LOSS", "loss", 0, "PASS" if agrees else "FAIL", f"{self.loss_diff:.6e}", "N/A", "N/A", shown, ""
