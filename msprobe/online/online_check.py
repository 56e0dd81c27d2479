"""The check of a running program: judges the operators that it is shown, and writes what it found.

folder/compare_result_rank0_20260101120000.csv     a line for each value of each checked call
folder/summary.json                                operators: checked, wrong, and the stack of the first wrong call
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from msprobe.compare.records.source_lines import Frame, frame_of
from msprobe.core.backend.replaying import CannotReplayError, Execution, HeldTensor, PreparedCall, Replayer, widened
from msprobe.core.log import logger
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.published.metrics import measure
from msprobe.online.kept_tensors import KeptTensors
from msprobe.online.sampling import Sampler, Sampling
from msprobe.precheck.appended_table import BLANK, append_lines, create_table
from msprobe.precheck.checked_call import OF_LEVEL, Status, worse
from msprobe.replay.judged_call import ValueJudgement, explain, judge_call

COLUMNS = (
    "Npu Name", "Bench Dtype", "NPU Dtype", "Shape", "error_balance", "max_abs_diff", "max_abs_idx", "max_rel_diff",
    "max_rel_idx", "eb_thd", "error_thd", "Status", "Message",
)  # fmt: skip
_PACKAGE = Path(__file__).resolve().parents[1]
_DIGITS = 8
_MOST_LINES = 100_000


@dataclass(slots=True)
class OperatorResult:
    """What is known of one operator."""

    checked: int = 0
    wrong: int = 0
    not_checked: int = 0
    first_wrong: str = ""
    stack: list[str] = field(default_factory=list)


class OnlineCheck:
    """Implements ``OperatorHandler``.

    Attributes:
        operators: results by the name of the operator.
        table: the csv file.
    """

    def __init__(
        self,
        replayer: Replayer,
        folder: Path,
        sampling: Sampling | None = None,
        kept: KeptTensors | None = None,
        rank: int = 0,
    ) -> None:
        """Make the table.

        Args:
            replayer: what runs calls of the framework.
            folder: for the results.
            sampling: which calls are checked.
            kept: writes tensors; None for no files.
            rank: the rank of this process, for the name of the table.

        Raises:
            OSError: it cannot be made.
        """
        make_folder(folder)
        self.operators: dict[str, OperatorResult] = {}
        self.table = folder / f"compare_result_rank{rank}_{datetime.now():%Y%m%d%H%M%S}.csv"
        self._summary = folder / "summary.json"
        self._replayer, self._sampler = replayer, Sampler(sampling or Sampling())
        self._kept = kept or KeptTensors(folder)
        self._lines = 0
        create_table(self.table, COLUMNS)

    def wants(self, name: str, signature: Hashable) -> bool:
        """Return whether a call is checked."""
        return self._sampler.wants(name, signature)

    def check(self, call: PreparedCall, execution: Execution) -> None:
        """Judge what an operator returned by the same call in a higher precision on the CPU."""
        self.judge(call, execution)

    def judge(self, call: PreparedCall, execution: Execution, replayer: Replayer | None = None) -> str:
        """Judge a call as ``check`` does; return what is wrong, "" where it is right or cannot be judged.

        Args:
            call: the call.
            execution: what the program got.
            replayer: what runs this call again, where it is not that of the check.
        """
        try:
            return self._judged(call, execution, replayer or self._replayer)
        finally:
            self._sampler.end_check()

    def _judged(self, call: PreparedCall, execution: Execution, replayer: Replayer) -> str:
        try:
            values = judge_call(call, replayer, "", execution).forward
        except CannotReplayError as error:
            self.refuse(call.api, error)
            return ""
        result = self.operators.setdefault(call.api, OperatorResult())
        result.checked += 1
        wrong = worse(*(OF_LEVEL[value.conditioned.level] for value in values)) is Status.ERROR
        if wrong:
            self._add_wrong(call, result, values)
        self._write([_line(call.api, number, value) for number, value in enumerate(values)])
        self._kept.keep(call, values, wrong=wrong)
        return "; ".join(filter(None, map(explain, values))) if wrong else ""

    def refuse(self, name: str, reason: CannotReplayError) -> None:
        """Note that a call cannot be checked."""
        self.operators.setdefault(name, OperatorResult()).not_checked += 1
        self._write([(name, *[BLANK] * 10, str(Status.SKIP), str(reason))])

    def counts(self) -> str:
        """Return how many calls were checked, and how many operators are wrong."""
        checked = sum(result.checked for result in self.operators.values())
        wrong = sum(result.wrong > 0 for result in self.operators.values())
        return f"{checked} calls of {len(self.operators)} operators, {wrong} wrong"

    def close(self) -> None:
        """Write the summary, and say in one line what was found.

        Raises:
            OSError: it cannot be written.
        """
        content = {name: asdict(result) for name, result in sorted(self.operators.items())}
        write_atomic(self._summary, [json.dumps(content, indent=1, ensure_ascii=False).encode()])
        wrong = {name: result for name, result in self.operators.items() if result.wrong}
        logger.info("online check: %s: %s", self.counts(), self.table)
        for name, result in wrong.items():
            logger.warning("online check: %s: %s (%s)", name, result.first_wrong, _place(result.stack))

    def _add_wrong(self, call: PreparedCall, result: OperatorResult, values: Sequence[ValueJudgement]) -> None:
        result.wrong += 1
        if result.wrong > 1:
            return
        result.first_wrong = "; ".join(filter(None, map(explain, values)))
        frames = reversed(traceback.extract_stack())
        texts = [f"File {each.filename}, line {each.lineno}, in {each.name}, {each.line}" for each in frames]
        result.stack = [text for text in texts if _is_of_user(frame_of(text))]
        logger.warning("online check: %s is wrong: %s (%s)", call.api, result.first_wrong, _place(result.stack))

    def _write(self, lines: list[tuple[str, ...]]) -> None:
        self._lines += len(lines)
        if self._lines <= _MOST_LINES:
            append_lines(self.table, lines)


def _is_of_user(frame: Frame) -> bool:
    return not frame.is_library and not Path(frame.path).is_relative_to(_PACKAGE)


def _place(stack: list[str]) -> str:
    return frame_of(stack[0]).text if stack else "called by autograd"


def _line(name: str, number: int, value: ValueJudgement) -> tuple[str, ...]:
    status, message = str(OF_LEVEL[value.conditioned.level]), explain(value) or BLANK
    target, golden = value.target, value.golden
    if not isinstance(target, HeldTensor) or not isinstance(golden, HeldTensor):
        return (f"{name}.output.{number}", *[BLANK] * 10, status, message)
    dtype = find_dtype(target.dtype)
    head = (f"{name}.output.{number}", golden.dtype, target.dtype, str(list(target.values.shape)))
    if dtype is None or target.values.shape != golden.values.shape or not target.values.size:
        return (*head, *[BLANK] * 7, status, message)
    found = measure(widened(target.values), widened(golden.values), dtype)
    figures = (found.error_balance, found.max_absolute_error, None, found.max_relative_error, None, None, None)
    place = str(value.conditioned.worst) if value.conditioned.worst >= 0 else BLANK
    cells = [BLANK if figure is None else f"{figure:.{_DIGITS}g}" for figure in figures]
    cells[2] = place
    return (*head, *cells, status, message)
