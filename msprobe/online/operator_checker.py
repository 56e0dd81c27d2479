"""Task ``online_check``: ``OnlineCheck`` as a task of config.json, at operators or, without them, calls of functions.

    {"task": "online_check", "dump_path": "checked", "online_check": {"every": 10, "share": 0.05}}

The results of a rank are in one folder of their own, ``dump_path/online_check_rank0``, because the first calls of each
kind are checked once in a run, not in every step. Wrong operators have entries in the dump of their step as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.core.backend.live_functions import LiveFunctions
from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.replaying import CannotReplayError, Execution, HeldTensor, PreparedCall, Replayer
from msprobe.core.config import DumpConfig
from msprobe.core.config.sections import OnlineCheckSection
from msprobe.core.dump.tasks.checked_calls import Checked, LiveCall
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.online.kept_tensors import KeptTensors
from msprobe.online.online_check import OnlineCheck
from msprobe.online.sampling import Sampling


@dataclass(frozen=True, slots=True)
class _Begun:
    call: PreparedCall
    replayer: Replayer


def make_checker(config: DumpConfig, backend: Backend) -> OperatorChecker:
    """Return what checks the operators of a session."""
    section = config.section
    assert isinstance(section, OnlineCheckSection) and backend.live is not None
    return OperatorChecker(section, backend.live, Path(config.dump_path))


class OperatorChecker:
    """Implements ``CallChecker``."""

    backward = False

    def __init__(self, section: OnlineCheckSection, live: LiveFunctions, root: Path) -> None:
        self._section, self._live, self._root = section, live, root
        self._check: OnlineCheck | None = None
        self._steps: dict[int, bool] = {}

    def selects(self, step: int) -> bool:
        if step not in self._steps:
            self._steps[step] = len(self._steps) % self._section.every == 0
        return self._steps[step]

    def begin_step(self, folder: Callable[[], Path], number: int, rank: int | None) -> None:
        if self._check is not None:
            return
        section, root = self._section, self._root / f"online_check_rank{rank or 0}"
        kept = KeptTensors(root, section.dump_mode, section.names)
        self._check = OnlineCheck(
            self._live.operators(), root, Sampling(section.first, section.share, section.names), kept, rank or 0
        )

    def begin(self, call: LiveCall) -> Any:
        name = f"{call.prefix}.{call.api}"
        if self._check is None or not self._check.wants(name, self._live.signature(call.args, call.kwargs)):
            return None
        try:
            prepared = self._live.prepare(call.prefix, call.api, call.args, call.kwargs)
        except CannotReplayError as error:
            self._check.refuse(name, error)
            return None
        return _Begun(prepared, self._live.replayer(call.function))

    def replaced(self, call: LiveCall) -> tuple[bool, Any]:
        return False, None

    def end(self, call: LiveCall, begun: Any, result: Any) -> Checked:
        assert self._check is not None
        execution = self._live.execution(result if result is not None or not call.args else call.args[0])
        return Checked(self._check.judge(begun.call, execution, begun.replayer), begun.call)

    def end_backward(self, call: LiveCall, begun: Any, gradients: Mapping[int, HeldTensor]) -> Checked:
        raise NotImplementedError("operators of the backward pass are checked as operators")

    def wants(self, name: str, signature: Any) -> bool:
        return self._check is not None and self._check.wants(name, signature)

    def check(self, call: PreparedCall, execution: Execution) -> Checked:
        assert self._check is not None
        return Checked(self._check.judge(call, execution), call)

    def conclusion(self) -> str:
        return "" if self._check is None else f"online check: {self._check.counts()}"

    def close(self) -> None:
        check, self._check = self._check, None
        if check is None:
            return
        try:
            check.close()
        except OSError as error:
            let_through(error)
            logger.warning("online check: the summary cannot be written: %s", error)
