"""What one monitor watches: every configuration becomes one ``MonitorPlan``, which does not change afterwards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msprobe.monitor.sources import Source


@dataclass(frozen=True, slots=True)
class StepWindow:
    """The steps that are measured: ``times`` of them, every ``interval``-th from ``start`` on, and before ``stop``."""

    start: int = 0
    interval: int = 1
    times: int = 100_000_000
    stop: int | None = None

    def holds(self, step: int) -> bool:
        """Return whether a step is measured."""
        if step < self.start or (self.stop is not None and step >= self.stop):
            return False
        return (step - self.start) % self.interval == 0 and (step - self.start) // self.interval < self.times

    def ended(self, step: int) -> bool:
        """Return whether neither this step nor a later one is measured."""
        last = self.start + self.interval * (self.times - 1)
        return step > last or (self.stop is not None and step >= self.stop)


@dataclass(frozen=True, slots=True)
class CollectiveChoice:
    """Which collectives are watched.

    Attributes:
        lines: the lines of the program, such as ``train.py[23]``; empty for all.
        before: whether arguments before the call are watched as well as those after it.
        only_lines: whether the lines that call collectives are told, and nothing is measured.
        ranks: the ranks on which; empty for all.
    """

    lines: frozenset[str] = frozenset()
    before: bool = False
    only_lines: bool = False
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MonitorPlan:
    """What is watched, and how it is written down.

    Attributes:
        statistics: for each source that is watched the names of its statistics, in the order of the columns.
        targets: names of modules and of the values of each that are watched (``input``, ``output``, ``input_grad``,
            ``output_grad``; empty for all of them); no targets stand for the whole model.
        all_modules: whether modules beside the targets are watched too; parameters are those of the targets.
        match_parts: whether a target names every module whose name holds it, not one module; it names no parameters
            then, and all of them are watched.
        positions: which one of several values is watched, by module and kind of value.
        features: for each kind of feature the modules it is computed of; empty for all that can have it.
        attention_axes: the order of the axes of query and key.
        short_names: whether names begin at the layer, as ``short_names`` writes them.
        collectives: which collectives are watched.
        window: the steps.
        ranks: the ranks that watch; empty for all.
        micro_steps: how many backward passes make a step, where gradients before the reduction are watched once a step.
        eps: magnitudes below it count as zero.
        rounded: whether sums are rounded to float32, as a framework gives them.
        moments_after: whether moments are those after the step of the optimizer, not before it.
        ends_by_hand: whether the program ends a step; else the step of the optimizer does.
        written_targets: the targets as the configuration has them, with a stage before the name; parameters are chosen
            by names that begin with one. Without them those of ``targets`` count.
    """

    statistics: Mapping[Source, tuple[str, ...]]
    targets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    all_modules: bool = True
    match_parts: bool = False
    positions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    features: Mapping[str, frozenset[str]] = field(default_factory=dict)
    attention_axes: str = "s,b,h,d"
    short_names: bool = False
    collectives: CollectiveChoice = CollectiveChoice()
    window: StepWindow = StepWindow()
    ranks: frozenset[int] = frozenset()
    micro_steps: int = 1
    eps: float = 1e-8
    rounded: bool = False
    moments_after: bool = False
    ends_by_hand: bool = False
    written_targets: frozenset[str] = frozenset()

    def watches(self, *sources: Source) -> bool:
        """Return whether any of these sources is watched."""
        return any(source in self.statistics for source in sources)

    def module_values(self, name: str) -> frozenset[str] | None:
        """Return the values of a module that are watched, empty for all; None where the module is not watched."""
        if not self.targets:
            return frozenset()
        if self.match_parts:
            return frozenset() if any(target in name for target in self.targets) else None
        return self.targets.get(name, frozenset() if self.all_modules else None)

    def missing_target(self, names: Collection[str]) -> str | None:
        """Return a target where no module has the name of any; None where one has, or there are no targets."""
        found = any(one in name if self.match_parts else one == name for one in self.targets for name in names)
        return None if found else next(iter(self.targets), None)

    def holds_parameter(self, name: str) -> bool:
        """Return whether a parameter is watched: where targets are modules, those whose names begin with a target, with
        or without the stage that the published monitor puts before them (``0:fc1.weight``)."""
        if not self.targets or self.match_parts:
            return True
        written = self.written_targets or self.targets
        return any(one.startswith(target) for target in written for one in (name, f"0:{name}"))


_LAYER_STARTS = tuple(
    re.compile(rf"^.*\.({part}.*)") for part in (r"layers?\.", r"embeddings?\.", "final", "output", "norm")
)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the short form of each name: from ``layers.`` on, or ``embedding.``, ``final``, ``output`` or ``norm``.

    A short form that several names would share is not used.
    """
    shortened = {name: _shortened(name) for name in names}
    counts = Counter(shortened.values())
    return {name: short if counts[short] == 1 else name for name, short in shortened.items()}


def _shortened(name: str) -> str:
    found = (pattern.match(name) for pattern in _LAYER_STARTS)
    return next((match[1] for match in found if match), name)
