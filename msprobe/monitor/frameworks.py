"""Which adapter watches the trainings of a framework; it is imported when a training of it begins to be watched."""

from __future__ import annotations

from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.interruption import import_whole
from msprobe.monitor.watch import TrainingWatch

_WATCHES = {  # MSAdapter's is for programs that import MindSpore, with MSAdapter or without
    "pytorch": "msprobe.adapters.pytorch.monitor.watch",
    "mindspore": "msprobe.adapters.msadapter.monitor.watch",
}
_NAMES = {"pt": "pytorch", "torch": "pytorch", "ms": "mindspore"}


def make_watch(framework: str) -> TrainingWatch:
    """Return the hooks of a framework.

    Raises:
        MsprobeException: the framework is not known.
    """
    module = _WATCHES.get(_NAMES.get(framework, framework))
    if module is None:
        raise MsprobeException(0, f"monitor: the framework is {' or '.join(_WATCHES)}, got {argument_text(framework)}")
    watch: TrainingWatch = import_whole(module).make_watch()
    return watch
