"""Task ``free_benchmark``: calls of a running program under other conditions, without a golden run.

    {"task": "free_benchmark", "dump_path": "checked", "free_benchmark": {"list": ["softmax"]}}

``handler_type`` check reports results with a fault (``online.findings``); fix gives the program the result in float32,
or that of the CPU, so that one sees whether a loss recovers. Calls that cannot be run again, and those of random
functions whose numbers nobody knows, are not checked; how many they are is said at the end of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from msprobe.compare.records.source_lines import frame_of
from msprobe.core.backend.live_functions import LiveFunctions
from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.replaying import CannotReplayError, Execution, HeldTensor, PreparedCall, Replayer
from msprobe.core.config import DumpConfig
from msprobe.core.config.sections import FreeBenchmarkSection
from msprobe.core.dump.tasks.checked_calls import Checked, LiveCall
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.online.condition_check import ConditionCheck
from msprobe.online.findings import Finding, FindingTables
from msprobe.online.published_check import PublishedCheck

_MOST_CAUSES = 10


class Judge(Protocol):
    """Finds the faults of calls.

    Attributes:
        knows_random: whether it can judge calls that draw random numbers, as they draw the same ones again.
    """

    knows_random: bool

    def findings(
        self, call: PreparedCall, target: Execution | None, replayer: Replayer, device: str
    ) -> Iterator[Finding]:
        """Yield the faults of a call."""
        ...

    def end_step(self) -> None:
        """End a step."""
        ...


@dataclass(frozen=True, slots=True)
class _Begun:
    call: PreparedCall
    device: str


def make_checker(config: DumpConfig, backend: Backend) -> FreeBenchmark:
    """Return what checks the calls of a session."""
    section = config.section
    assert isinstance(section, FreeBenchmarkSection) and backend.live is not None
    judge = PublishedCheck(section) if section.policy == "reference" else ConditionCheck(section.pert_mode)
    return FreeBenchmark(section, judge, backend.live, Path(config.dump_path))


class FreeBenchmark:
    """Implements ``CallChecker``."""

    def __init__(self, section: FreeBenchmarkSection, judge: Judge, live: LiveFunctions, root: Path) -> None:
        self.backward = section.fuzz_stage == "backward"
        self._mode, self._fixes = section.pert_mode, section.handler_type == "fix"
        self._judge, self._live, self._root = judge, live, root
        self._head: tuple[str, str] = "0", "0"
        self._tables: FindingTables | None = None
        self._causes: Counter[tuple[str, str, str]] = Counter()
        self._checked = self._fixed = 0
        self._refused: Counter[str] = Counter()

    def selects(self, step: int) -> bool:
        return True

    def begin_step(self, folder: Callable[[], Path], number: int, rank: int | None) -> None:
        self._tables = FindingTables(self._root, folder)
        self._head = str(rank or 0), str(number)
        self._causes.clear()
        self._refused.clear()
        self._checked = self._fixed = 0

    def begin(self, call: LiveCall) -> Any:
        if self._fixes:
            return call
        try:
            prepared = self._live.prepare(call.prefix, call.api, call.args, call.kwargs)
        except CannotReplayError as error:
            self._refuse(call, error)
            return None
        return _Begun(
            replace(prepared, program_state=self._live.program_state()), self._live.device(call.args, call.kwargs)
        )

    def replaced(self, call: LiveCall) -> tuple[bool, Any]:
        if not self._fixes:
            return False, None
        fixed, result = self._live.improved(call.function, call.args, call.kwargs, self._mode == "to_cpu")
        self._fixed += fixed
        return fixed, result

    def end(self, call: LiveCall, begun: Any, result: Any) -> Checked:
        if self._fixes or self.backward:
            return Checked()
        if self._is_drawn_inside(call, begun.call):
            return Checked()
        execution = self._live.execution(result if result is not None or not call.args else call.args[0])
        return self._judged(call, begun.call, execution, begun.device)

    def _is_drawn_inside(self, call: LiveCall, begun: PreparedCall) -> bool:
        """Return whether the function has drawn random numbers, and it is not known what becomes of them."""
        if self._judge.knows_random or not self._live.has_drawn(begun.program_state):
            return False
        if self._live.replayer(call.function).is_random(call.prefix, call.api):
            return False
        self._refuse(call, CannotReplayError("it draws random numbers inside"))
        return True

    def end_backward(self, call: LiveCall, begun: Any, gradients: Mapping[int, HeldTensor]) -> Checked:
        count = max(gradients, default=-1) + 1
        given = replace(begun.call, gradients=[gradients.get(position) for position in range(count)])
        return self._judged(call, given, None, begun.device) if count else Checked()

    def wants(self, name: str, signature: Any) -> bool:
        return False

    def check(self, call: PreparedCall, execution: Execution) -> Checked:
        raise NotImplementedError("calls of functions are checked")

    def conclusion(self) -> str:
        self._judge.end_step()
        if self._fixes:
            return f"free_benchmark: {self._fixed} calls got the result of mode {self._mode}"
        refused = f"; {self._refused.total()} not checked ({self._most_refused()})" if self._refused else ""
        calls = sum(self._causes.values())
        lines = [f"free_benchmark: {self._checked} calls checked, {calls} with a finding{refused}"]
        for (verdict, api, source), count in self._causes.most_common(_MOST_CAUSES):
            lines.append(f"  {verdict}: {api}, {count} calls ({source or 'no stack is recorded'})")
        return "\n".join(lines)

    def close(self) -> None:
        self._tables = None

    def _judged(self, call: LiveCall, given: PreparedCall, target: Execution | None, device: str) -> Checked:
        assert self._tables is not None
        try:
            findings = list(self._judge.findings(given, target, self._live.replayer(call.function), device))
        except CannotReplayError as error:
            self._refuse(call, error)
            return Checked()
        self._checked += 1
        if not findings:
            return Checked()
        source = frame_of(call.stack[0]).text if call.stack else ""
        self._write(call, findings, source)
        cause = findings[0].verdict, f"{call.prefix}.{call.api}", source
        self._causes[cause] += 1
        first = self._causes[cause] == 1
        return Checked(f"{findings[0].verdict}: {findings[0].message}" if first else "", given)

    def _write(self, call: LiveCall, findings: Sequence[Finding], source: str) -> None:
        assert self._tables is not None
        rank, step = self._head
        stage = "backward" if self.backward else "forward"
        name = call.name.rpartition(".")[0] + f".{stage}"
        try:
            self._tables.add((rank, self._mode, stage, step, name), findings, source)
        except OSError as error:
            let_through(error)
            if first_time(("free_benchmark", "tables")):
                logger.error("free_benchmark: findings cannot be written: %s", error_text(error))

    def _refuse(self, call: LiveCall, error: CannotReplayError) -> None:
        self._refused[f"{call.prefix}.{call.api}: {error}"] += 1

    def _most_refused(self) -> str:
        return self._refused.most_common(1)[0][0]
