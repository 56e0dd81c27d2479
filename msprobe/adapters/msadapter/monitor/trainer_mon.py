"""``TrainerMon`` for programs that import MindSpore, with MSAdapter or without."""

from __future__ import annotations

from msprobe.adapters.msadapter.monitor.watch import make_watch
from msprobe.monitor import trainer_mon
from msprobe.monitor.watch import TrainingWatch


class TrainerMon(trainer_mon.TrainerMon):
    __doc__ = trainer_mon.TrainerMon.__doc__

    @classmethod
    def make_watch(cls) -> TrainingWatch:
        """Return the hooks of MSAdapter where the program has imported it, else those of MindSpore."""
        return make_watch()
