"""Measure what collecting costs in a running program: a few of its steps without, a few with, then the program ends.

``StepCosts`` stands for the debugger of ``msprobe run``. Its first step warms the program up, the next ones are bare,
then a real debugger records: the first recorded step is told apart, as it prepares what later ones use. The time of a
step is that between the ends of two steps. The figures go to a file in ``folder`` (``Measured``), and the process ends
there and then: nothing of the program runs any more, so a dry run takes six steps and not a training.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msprobe.core.capture.function_calls import Called
from msprobe.core.dump.bounds.disk_budget import processes_here
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.safe_files import write_atomic

WARM: Final = 1
BARE: Final = 2
RECORDED: Final = 2
STEPS: Final = WARM + BARE + 1 + RECORDED
"""How many steps a program must make: the first recorded one counts apart."""
_WAIT_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.05


class StepCosts:
    """Count the steps of a program, record the last ones, and end the process.

    Args:
        make_debugger: makes the debugger that is measured.
        folder: where the figures go.
        synchronize: waits until the device has done its work.
        rank: returns the rank of this process, if it has one.
    """

    def __init__(
        self,
        make_debugger: Callable[[], Any],
        folder: Path,
        synchronize: Callable[[], None],
        rank: Callable[[], int | None],
    ) -> None:
        self._make_debugger = make_debugger
        self._folder = folder
        self._synchronize = synchronize
        self._rank = rank
        self._debugger: Any = None
        self._seconds: list[float] = []
        self._last: float | None = None
        atexit.register(self.write)  # a program of fewer steps

    @property
    def service(self) -> StepCosts:
        """Stand for ``debugger.service``."""
        return self

    @property
    def opened(self) -> bool:
        """Whether more is to be recorded of a step that has ended: nothing is."""
        return False

    def repeat_number(self) -> None:
        """Give the next step the number of the one that has ended."""
        if self._debugger is not None:
            self._debugger.service.repeat_number()

    def return_reads(self) -> None:
        """Do nothing: no step is kept."""

    def hold_functions(self) -> None:
        """See functions that the program looks up before the next start."""
        if self._debugger is not None:
            self._debugger.service.hold_functions()

    def leave_out_thread(self, left_out: bool) -> None:
        """Record nothing that this thread calls from here on, or record it again."""
        if self._debugger is not None:
            self._debugger.service.leave_out_thread(left_out)

    def watch_functions(self, called: Called) -> bool:
        """Tell ``called`` of each call of a function (``DumpSession.watch_functions``)."""
        return self._debugger is not None and bool(self._debugger.service.watch_functions(called))

    def flush(self) -> None:
        """Write what the step has recorded so far."""
        if self._debugger is not None:
            self._debugger.service.flush()

    def start(self, model: Any) -> None:
        """Begin a step; record it when its turn has come."""
        if self._last is None:
            self._last = time.perf_counter()
        try:
            if self._debugger is None and len(self._seconds) >= WARM + BARE:
                self._debugger = self._make_debugger()
            if self._debugger is not None:
                self._debugger.start(model)
        except (MsprobeException, OSError) as error:
            let_through(error)
            self.finish(fault=str(error))

    def stop(self) -> None:
        """End what is recorded of the step."""
        if self._debugger is not None:
            self._debugger.stop()

    def step(self, dump: bool = True) -> None:
        """End a step, and the process after the last one."""
        if self._debugger is not None:
            self._debugger.step(dump)
        self._synchronize()
        now = time.perf_counter()
        if dump and self._last is not None:
            self._seconds.append(now - self._last)
        self._last = now
        if len(self._seconds) >= STEPS:
            self.finish()

    def finish(self, fault: str = "") -> None:
        """Write the figures, wait for the other processes of the job, and end this one."""
        self.write(fault)
        deadline = time.monotonic() + (0.0 if fault else _WAIT_SECONDS)
        while len(list(self._folder.glob("*.json"))) < processes_here() and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def write(self, fault: str = "") -> None:
        """Write the figures so far."""
        logger.info("dry run: %d steps were made", len(self._seconds))
        if self._debugger is not None:
            self._debugger.trigger("estimate")  # writes what is kept in memory
        figures = {"rank": self._rank(), "seconds": self._seconds, "fault": fault, "process": os.getpid()}
        write_atomic(self._folder.joinpath(f"{os.getpid()}.json"), [json.dumps(figures).encode()])
