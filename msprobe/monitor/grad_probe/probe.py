"""``PrecisionDebugger.monitor``: watches the gradients of a model (task ``grad_probe``).

The n-th step of an optimizer has the number n. Where a program has several optimizers, each counts its own steps, and
the gradients of all of them stand in the files of that number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.config.sections import GradProbeSection
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.host import require_local
from msprobe.core.log import logger
from msprobe.core.store.safe_files import disk_remedy
from msprobe.monitor.frameworks import make_watch
from msprobe.monitor.grad_probe.files import GradientFacts, ProbeFiles
from msprobe.monitor.unrecorded import unrecorded
from msprobe.monitor.watch import Remove, TrainingWatch


class GradProbe:
    """Measures the gradients of one model when an optimizer begins a step.

    Args:
        config: the configuration, of task ``grad_probe``.
        watch: the hooks of the framework.
    """

    def __init__(self, config: DumpConfig, watch: TrainingWatch) -> None:
        section = config.grad_probe
        require_local(config.dump_path, "dump_path")
        self.errors = ErrorLog(None)
        self._section: GradProbeSection = section
        self._steps = config.step
        self._watch = watch
        self._active = not config.rank or watch.rank() in config.rank
        root = Path(config.dump_path).absolute()
        self._files = ProbeFiles(root, watch.rank(), section.grad_level, section.bounds)
        self._parameters: dict[str, Any] = {}
        self._counts: dict[int, int] = {}
        self._remove: Remove | None = None
        self._failed = False

    def attach(self, model: Any) -> None:
        """Watch a model, in place of an earlier one.

        Raises:
            MsprobeException: it is no model.
        """
        self.detach()
        chosen = frozenset(self._section.param_list)
        try:
            named = dict(self._watch.parameters(model))
        except TypeError as error:
            raise MsprobeException(0, f"monitor: {error}") from error
        self._parameters = {name: one for name, one in named.items() if not chosen or name in chosen}
        for name in sorted(chosen - named.keys()):
            logger.warning("grad_probe.param_list: the model has no parameter %s", name)
        if self._active:
            self._remove = self._watch.watch_optimizer(None, self)

    def detach(self) -> None:
        """Take the hooks away."""
        if self._remove is not None:
            self._remove()
            self._remove = None

    @unrecorded
    def before_step(self, optimizer: Any) -> None:
        """Measure the gradients that an optimizer is about to use."""
        held = self._watch.held_by(optimizer)
        chosen = {name: one for name, one in self._parameters.items() if held is None or id(one) in held}
        step = self._counts.get(id(optimizer), 0)
        self._counts[id(optimizer)] = step + 1
        if not chosen or (self._steps and step not in self._steps):
            return
        facts = [
            self._watch.gradient_facts(name, gradient, self._section)
            for name, one in chosen.items()
            if (gradient := self._watch.gradient(one)) is not None
        ]
        self._write(step, facts)

    @unrecorded
    def after_step(self, optimizer: Any) -> None:
        """Nothing is measured after a step."""

    def _write(self, step: int, facts: list[GradientFacts]) -> None:
        try:
            self._files.write(step, facts)
        except OSError as error:
            if not self._failed:
                where = f"grad_probe: the gradients of step {step}, and perhaps later ones, are not written"
                logger.warning("%s: %s. %s", where, error_text(error), disk_remedy(error))
            self._failed = True


def begin(config: DumpConfig, framework: str, model: Any) -> GradProbe:
    """Watch the gradients of a model as the configuration says, and return what watches them.

    Raises:
        MsprobeException: the task is another one, or ``model`` is no model.
    """
    if config.task != "grad_probe":
        raise MsprobeException(0, f'monitor: is for task "grad_probe", the task is "{config.task}"')
    probe = GradProbe(config, make_watch(framework))
    probe.attach(model)
    return probe
