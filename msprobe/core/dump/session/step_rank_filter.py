"""Select steps and ranks as a configuration says, and say at the end of a process why it collected nothing.

``StepRankFilter`` decides for one configuration. ``CallCounts`` counts the calls of ``start`` and ``step`` over all
configurations of a session. ``conclude`` makes one line of both, or none when there is nothing to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from msprobe.core.config import DumpConfig, IntRanges
from msprobe.core.dump.session.process_debugger import uncaught_error
from msprobe.core.host import process_count
from msprobe.core.log import logger

_LISTED = 8


@dataclass(slots=True)
class CallCounts:
    """The calls of a session so far.

    Attributes:
        starts: calls of ``start``.
        steps: calls of ``step``.
        saves: calls of ``save``.
        rounds: pairs of ``start`` and ``stop`` in the same step, one after the other.
    """

    starts: int = 0
    steps: int = 0
    saves: int = 0
    rounds: int = 0
    _step: int | None = None  # the step of these rounds

    def add_round(self, step: int) -> None:
        """Count a ``stop`` after a ``start`` in ``step``."""
        self.rounds = self.rounds + 1 if step == self._step else 1
        self._step = step

    def end_rounds(self) -> None:
        """Count rounds anew: what is collected next goes elsewhere."""
        self._step = None


class StepRankFilter:
    """The steps and ranks that a configuration selects; an empty list selects all."""

    def __init__(self, config: DumpConfig) -> None:
        self._level = config.level
        self._is_of_command = bool(config.task_spec.command)
        self._steps = config.step
        self._every = config.section.sampled.every
        self._ranks = config.rank
        self._logged = False
        self._rejected: tuple[int, int] | None = None  # the first and the last step that were left out
        self._unmet = ""  # why no rank of the job is selected
        self._collected = False

    def wants_step(self, number: int) -> bool:
        """Return whether step ``number`` would be collected, which may never begin."""
        return (not self._steps or number in self._steps) and number % self._every == 0

    def selects_step(self, number: int) -> bool:
        """Return whether step ``number``, which begins, is collected."""
        if self.wants_step(number):
            self._collected = True
            return True
        self._rejected = (self._rejected or (number, number))[0], number
        if self._steps and number > self._steps.last and not self._logged:
            self._logged = True
            logger.info("all steps asked for (up to %d) are over: nothing more is collected", self._steps.last)
        return False

    def selects_rank(self, rank: int | None) -> bool:
        """Return whether the process of ``rank`` is collected; a list of ranks never selects a process without rank.

        A process that is left out says so, unless another one of its job is selected.
        """
        if not self._ranks or (rank is not None and rank in self._ranks):
            return True
        if not self._logged:
            self._logged = True
            self._unmet = self._reason_of(rank)
            if self._unmet:
                logger.warning("nothing is collected: %s", self._unmet)
        return False

    def conclude(self, counts: CallCounts) -> None:
        """Warn at the end of a process, in one line, when it collected nothing, or all of its steps as one."""
        saved_nothing = self._level == "debug" and not counts.saves
        line = self._nothing(counts) if saved_nothing or not self._collected else ""
        if not line and self._collected and not counts.steps and counts.rounds > 1:
            line = (
                f"step() was never called: what {counts.rounds} pairs of start() and stop() enclosed is all in one "
                "step; call step() after the stop() of each training step"
            )
        if line:
            logger.warning("%s", line)

    def _nothing(self, counts: CallCounts) -> str:
        """Return why nothing was collected; empty when that is meant so, or follows from an error of the program."""
        if self._is_of_command:
            return ""
        if self._unmet:
            return f"nothing was collected: {self._unmet}"
        if self._rejected is not None:
            first, last = self._rejected
            run = f"step {first}" if first == last else f"steps {first} to {last}"
            reason = "step() counts, from 0" if counts.steps else "step() was never called; it counts, from 0"
            every = f"every {self._every}th step (sample.every)" if self._every > 1 else ""
            listed = f"step {_first_items(self._steps)}" if self._steps else ""
            asked = " of ".join(part for part in (every, listed) if part)
            return f"nothing was collected: the configuration asks for {asked}, this run had {run} ({reason})"
        if counts.saves or uncaught_error() is not None:
            return ""
        if self._level == "debug":
            return "nothing was collected: level debug records what save() is given, and save() was never called"
        if counts.starts:
            return ""
        stepped = f" (step() was, {counts.steps} times)" if counts.steps else ""
        return (
            f"nothing was collected: start() was never called in this process{stepped}; call start(model) before each "
            "training step, stop() and step() after it"
        )

    def _reason_of(self, rank: int | None) -> str:
        """Return why the process is left out; empty when another process of the job is selected."""
        asked = f"the configuration asks for rank {_first_items(self._ranks)}, this process is"
        if rank is None:
            return (
                f"{asked} without a rank; initialize the process group before start(), pass start(rank_id=...), or "
                "leave rank empty"
            )
        size = process_count()
        if size is None:
            return f"{asked} rank {rank}"
        if any(number < size for number in (low for low, _ in self._ranks.bounds)):
            return ""
        return f"{asked} rank {rank} of {size}, from 0"


def _first_items(ranges: IntRanges) -> str:
    items = ranges.to_list()
    return ", ".join(map(str, items[:_LISTED])) + (", ..." if len(items) > _LISTED else "")
