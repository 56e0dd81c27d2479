"""``TrainerMon`` for PyTorch."""

from __future__ import annotations

from msprobe.adapters.pytorch.monitor.watch import TorchWatch
from msprobe.monitor import trainer_mon
from msprobe.monitor.watch import TrainingWatch


class TrainerMon(trainer_mon.TrainerMon):
    __doc__ = trainer_mon.TrainerMon.__doc__

    @classmethod
    def make_watch(cls) -> TrainingWatch:
        """Return the hooks of PyTorch."""
        return TorchWatch()
