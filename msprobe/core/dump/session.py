"""The life of a collection: start, stop, step. The only state machine of a dump, independent of any framework.

    idle --start--> running --stop--> paused --start--> running ... --step--> idle (next step)

While running the taps are attached. Between stop and step the calls that already ran may still bring gradients. A
step that the configuration leaves out attaches nothing at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.core.backend.model import Backend
from msprobe.core.capture.observer import Observer, Relay
from msprobe.core.capture.stack import StackTable
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.attaching import adopt, attach_taps, reset_taps
from msprobe.core.dump.awaited import Awaited
from msprobe.core.dump.chosen import Chosen
from msprobe.core.dump.gates import Gates
from msprobe.core.dump.override import InputOverride
from msprobe.core.dump.plan import DumpPlan
from msprobe.core.dump.step import Step
from msprobe.core.dump.task import make_background, make_golden, make_judge
from msprobe.core.dump.whereabouts import Whereabouts
from msprobe.core.errors import ConfigError, Problem
from msprobe.core.log import set_rank

MakeBackend = Callable[[DumpConfig, Relay, ThreadState], Backend]


class DumpSession:
    """Collects one process's calls, step by step, as one configuration says.

    Args:
        config: what to collect.
        make_backend: builds the framework's capabilities around this session's relay and per-thread state.
    """

    def __init__(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        self.config = config
        self.relay = Relay()
        self.thread = ThreadState()
        self._make_backend = make_backend
        self.backend = make_backend(config, self.relay, self.thread)
        self.plan = DumpPlan.of(config)
        self.label: dict[str, str] = {}  # more fields for the header of dump.json
        self.closing = contextlib.ExitStack()  # what is undone with the session
        self._root = Path(config.dump_path).absolute()
        self._stacks = StackTable()
        self.init_step = 0
        self.loop = 0
        self.rank: int | None = None
        self._step: Step | None = None
        self._awaited: Awaited | None = None  # stands for the step until it begins
        self._taps: contextlib.ExitStack | None = None
        self._wanted = False  # between start and stop, whether or not the present step is recorded
        self._focused: dict[int, tuple[Any, str]] = {}  # modules that are recorded alone, with their names, by id
        self._places = Whereabouts()
        self.relay.ranked = self._look_for_rank
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the configuration."""
        config = self.config
        self._chosen = Chosen(config)
        self.gates = Gates(config, self.relay, self.backend.runtime)
        self.background = make_background(config, self.thread)
        self.golden = make_golden(config)
        self._override = InputOverride(config.load) if config.load is not None else None

    def renew(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        """Another configuration or framework, while no step is open: all that follows from it is made anew."""
        backend = make_backend(config, self.relay, self.thread)
        if backend.kernel_dump is not None:
            expected = "a run that began with dump_enable cannot change to kernels; use L0, L1, mix or debug"
            raise ConfigError([Problem("level", config.level, expected)])
        backend.take_over(self.backend, self._focused.values())
        self.gates.shut()
        self.config, self.backend, self.plan = config, backend, DumpPlan.of(config)
        self._prepare()

    @property
    def current_step(self) -> int:
        return self.init_step + self.loop

    @property
    def running(self) -> bool:
        return self._taps is not None

    def set_init_step(self, step: int) -> None:
        """Number the steps from ``step`` on."""
        self.init_step, self.loop = step, 0

    def start(
        self, model: Any = None, rank_id: int | None = None, token_range: Any = None, scheduled_tokens: Any = None
    ) -> None:
        """Begin or go on collecting. Does nothing in a step or rank that the configuration leaves out.

        Raises:
            MsprobeException: the level needs a model and there is none, or an argument cannot be used.
        """
        self.gates.ask(model, token_range, scheduled_tokens)
        if self.plan.modules or self._override is not None or (model is not None and self.backend.apis_in_models):
            adopt(self.backend, self.config.level, model)
        if self._taps is not None:
            if self._step is not None and model is not None and self.plan.modules:
                self._step.watch_parameters()  # those of one more model
            return
        self._wanted = True
        self._resume(self._collects(rank_id))

    def stop(self) -> None:
        """Stop observing calls and publish the documents; gradients of calls that ran still arrive until ``step``."""
        self._wanted = False
        if self._taps is None:
            return
        self._detach()
        self._await_no_more()
        self.gates.shut(tell=True)
        self._look_for_rank()
        if self._step is not None:
            self._step.publish()

    def step(self, dump: bool = True) -> None:
        """End the step: publish, and number everything from 0 again. Collecting goes on if it was not stopped.

        Without ``dump`` what was recorded in this step is removed; its number is used up all the same.
        """
        self._detach()
        self._close_step(discard=not dump)
        if self._override is not None:
            self._override.close()
        self.loop += 1
        if self._wanted:
            self._resume(self._collects(None, again=True), asked=False)

    def focus(self, module: Any, name: str) -> None:
        """Record calls of ``module``, as ``name``, and of others focused, and nothing else, until ``focus_end``."""
        assert self.backend.modules is not None
        self.backend.modules.focus(module, name)
        self._focused[id(module)] = module, name
        self._attach_again()

    def focus_end(self) -> None:
        """Record everything again."""
        if self.backend.modules is not None:
            self.backend.modules.focus_end()
        self._focused.clear()
        self._attach_again()

    def save(self, value: Any, name: str, backward: bool = True) -> None:
        """Record one value of the user's choice (and its gradients) in debug.json, between start and stop or not."""
        if not self.plan.bodies or not self._chosen.step(self.current_step) or not self._selected_rank(None):
            return
        self._begin_awaited()
        if self._step is None:
            self._step = self._open_step()
            reset_taps(self.backend)
        with self.thread.quiet():
            self._step.points.save(name, value, backward)

    def reset(self) -> None:
        """Close what is open without counting a step: what is collected next begins anew, in the same step."""
        self._detach()
        self._close_step()

    def move(self, folder: str) -> None:
        """Collect into ``folder`` from now on; a step that is open elsewhere ends there."""
        root = Path(folder).absolute()
        if root != self._root:
            self.reset()
            self._root = root

    def forget_rank(self) -> None:
        """Ask for the rank again at the next start."""
        self.rank = None

    @property
    def opened(self) -> bool:
        """Whether a start has taken effect in the present step."""
        return self._step is not None or self._awaited is not None

    def close(self) -> None:
        """At the end of the process: what was not stopped is published all the same."""
        self._wanted = False
        self._detach()
        self.gates.shut()
        self._close_step()
        self._chosen.conclude()
        self.closing.close()

    def abandon(self) -> None:
        """In a forked child: unhook everything without touching what belongs to the parent."""
        if self.background is not None:
            self.background.abandon()
        if self._step is not None:
            self._step.unwatch_parameters()
        self.relay.observer = self._step = self._awaited = None
        self._wanted, self.closing = False, contextlib.ExitStack()
        self._detach()
        self.gates.shut()
        self._places.leave(self.backend.runtime.rank() if self.rank is None else self.rank)
        self.rank = None

    def inherit(self) -> None:
        """In a forked child that collects too: go on with the configuration and the step number of the parent."""
        self.renew(self.config, self._make_backend)

    # ---- inside ----

    def _collects(self, rank_id: int | None, again: bool = False) -> bool:
        """Whether this start collects at all; ``again`` for a step that begins without one."""
        selected = self._selected_rank(rank_id) and self._chosen.step(self.current_step) and not self.config.load_only
        selected = selected and (self.plan.apis or self.plan.modules)  # level debug: save() opens the step
        return selected and (self.gates.stay() if again else self.gates.admit())

    def _resume(self, collects: bool, asked: bool = True) -> None:
        if collects and self._step is None:
            if asked:
                self._step = self._open_step()
            else:
                self._awaited = Awaited(self._begin_awaited)
            reset_taps(self.backend)
        if collects or self._loads():
            self._attach(collects)

    def _loads(self) -> bool:
        """Whether inputs are replaced in this step."""
        return self._override is not None and self._override.active(self.current_step, self.rank)

    def _selected_rank(self, rank_id: int | None) -> bool:
        self._look_for_rank(rank_id)
        return self._chosen.rank(self.rank)

    def _look_for_rank(self, rank_id: int | None = None) -> None:
        """Learn the rank once there is one; a step that is open moves to its folder."""
        if self.rank is None:
            self.rank = rank_id if rank_id is not None else self.backend.runtime.rank()
            set_rank(self.rank)
            if self.rank is not None and self._step is not None:
                self._places.move(self._step, self.rank)

    def _open_step(self) -> Step:
        judge = make_judge(self)  # before there is a folder: it may refuse
        folder = self._places.folder(self._root, self.current_step, self.rank)
        return Step(self, folder, judge)

    def _attach(self, collects: bool = True) -> None:
        self.thread.scopes.clear()
        with contextlib.ExitStack() as taps:  # a tap that cannot be attached takes the others off again
            if collects and self.opened:
                attach_taps(self.backend, self.plan, taps, alone=bool(self._focused))
                self._show()
            if self._override is not None and self._loads() and self.backend.inputs is not None:
                self._override.open(self.current_step, self.rank)
                taps.enter_context(self.backend.inputs.attach(self._override))  # outermost: the new input is recorded
            self._taps = taps.pop_all()

    def _attach_again(self) -> None:
        if self._taps is not None:
            self._detach()
            self._attach()

    def _show(self) -> None:
        """Have the taps tell the step, or what stands for it."""
        if self._step is not None:
            if self.plan.modules or self._focused:
                self._step.watch_parameters()
            self.gates.open(self._step.collector)
        elif self._awaited is not None:
            self.gates.open(self._awaited)

    def _begin_awaited(self) -> Observer | None:
        """Begin the step that was awaited, if it still is; the observer of the step that is open then."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            self._look_for_rank()
            self._step = self._open_step()
            self._step.unasked = True
            self._show()
        return None if self._step is None else self._step.collector

    def _await_no_more(self) -> None:
        if self._awaited is not None:
            self._awaited = self.relay.observer = None

    def _detach(self) -> None:
        if self._taps is not None:
            taps, self._taps = self._taps, None
            taps.close()
            self.thread.scopes.clear()

    def _close_step(self, discard: bool = False) -> None:
        self._await_no_more()
        if self._step is not None:
            self._look_for_rank()
            step, self._step = self._step, None
            self.relay.observer = None
            (step.discard if discard else step.close)()
