"""The life of a collection: start, stop, step. This is the only state machine of a dump; it knows no framework.

    idle --start--> running --stop--> paused --start--> running ... --step--> idle (next step)

While running, the taps are attached. Between stop and step, calls that already ran may still bring gradients. A step
that the configuration leaves out attaches nothing at all.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from msprobe.core.backend.attached_taps import adopt, attach_taps, hold_functions
from msprobe.core.backend.perturbation import perturb
from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.function_calls import Called, FunctionCalls
from msprobe.core.capture.observer import CurrentObserver, Observer
from msprobe.core.capture.patching import Undoable, noted_in
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.bounds.budgets import Budgets
from msprobe.core.dump.bounds.ring import Ring, warn_without_ring
from msprobe.core.dump.bounds.value_watch import Reason
from msprobe.core.dump.captured.captured_graph import CapturedSink
from msprobe.core.dump.record.request_tokens import RequestTokens
from msprobe.core.dump.record.step_recorder import RecordingPlan
from msprobe.core.dump.session.input_override import InputOverride
from msprobe.core.dump.session.process_debugger import uncaught_error
from msprobe.core.dump.session.rank_folder import RankFolder
from msprobe.core.dump.session.start_filters import StartFilters
from msprobe.core.dump.session.step import LazyStep, Step
from msprobe.core.dump.session.step_rank_filter import CallCounts, StepRankFilter
from msprobe.core.dump.session.task_factory import (
    StepContext,
    make_checker,
    make_golden,
    make_judge,
    make_ring,
    make_worker,
)
from msprobe.core.errors import ConfigError, Problem, error_text
from msprobe.core.log import set_rank

F = TypeVar("F", bound=Callable[..., Any])


def outside_modes(method: F) -> F:
    """Decorate a method of a session: no mode of the program sees what it computes (``Runtime.outside_modes``)."""

    @functools.wraps(method)
    def outside(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.backend.runtime.outside_modes():
            return method(self, *args, **kwargs)

    return outside  # type: ignore[return-value]


MakeBackend = Callable[[DumpConfig, CurrentObserver, ThreadState], Backend]


class DumpSession:
    """Collect the calls of one process, step by step, as one configuration says.

    Args:
        config: what to collect.
        make_backend: builds the framework's capabilities around this session's current observer and per-thread state.
        label: more fields for the header of dump.json.

    Attributes:
        closing: callbacks that run when the session is closed.
        enabled: whether collection is switched on, which it always is without ``dump_enable``.
        init_step: the number of the first step.
        loop: the number of steps that have ended.
        rank: the rank of the process; None while it has none.
        requests: the tokens of requests that all starts so far have scheduled.
        captured: takes the records of captured graphs; None where none are recorded.
    """

    captured: CapturedSink | None = None

    def __init__(self, config: DumpConfig, make_backend: MakeBackend, label: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.current = CurrentObserver(self._update_rank)
        self.thread = ThreadState()
        self._make_backend = make_backend
        self.backend = make_backend(config, self.current, self.thread)
        self.plan = RecordingPlan.of(config)
        self._label = dict(label or {})
        self.closing = contextlib.ExitStack()
        self.enabled = True
        self._root = Path(config.dump_path).absolute()
        self._stacks = StackTable()
        self.init_step = 0
        self.loop = 0
        self.rank: int | None = None
        self.requests = RequestTokens()
        self._step: Step | None = None
        self._before: Path | None = None  # the document of the last step that was kept
        self._lazy: LazyStep | None = None  # stands for the step until its first call
        self._taps: contextlib.ExitStack | None = None
        self._held: contextlib.ExitStack | None = None  # keeps wrappers in place between a stop and a start
        self._applied: list[Undoable] = []  # what is in place, should the taps not be detached as usual
        self._started = False  # between start and stop, whether or not the current step is recorded
        self._focused: dict[int, tuple[Any, str]] = {}  # modules that are recorded alone, with their names, by id
        self._folders = RankFolder()
        self._counts = CallCounts()
        self._budget = Budgets(self._end_collection)
        self._ring: Ring | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Make what follows from the configuration."""
        config = self.config
        self._budget.allow(config)
        if self._ring is not None:
            self._ring.abandon()
        self._ring = make_ring(config)
        self._step_filter = StepRankFilter(config)
        self._filters = StartFilters(config, self.current, self.backend.runtime, self.requests)
        self._worker = make_worker(config)
        self._golden = make_golden(config)
        self._checker = make_checker(config, self.backend)
        self._override = InputOverride(config.load) if config.load is not None else None

    def renew(self, config: DumpConfig, make_backend: MakeBackend) -> None:
        """Change the configuration or the framework, while no step is open: make all that follows from it anew."""
        backend = make_backend(config, self.current, self.thread)
        if backend.kernel_dump is not None:
            expected = "a run that began with dump_enable cannot change to kernels; use L0, L1, mix or debug"
            raise ConfigError([Problem("level", config.level, expected)])
        self._detach()
        backend.take_over(self.backend, self._focused.values())
        self._filters.close()
        self.config, self.backend, self.plan = config, backend, RecordingPlan.of(config)
        self._prepare()

    def hold_functions(self) -> None:
        """Keep the wrappers of functions in place until the next start, if that collects.

        What starts at the first call of a model comes too late for a function that the program has looked up before:
        in ``loss(model(x), y)`` Python looks ``loss`` up first. Between a stop and a start wrappers pass through.
        """
        wanted = self._step_filter.wants_step(self.current_step) and not self._budget.reached
        if self._taps is None and self._held is None and self.plan.apis and wanted:
            with noted_in(self._applied), contextlib.ExitStack() as held:
                hold_functions(self.backend, held)
                self._held = held.pop_all()

    def watch_functions(self, called: Called) -> bool:
        """Tell ``called`` of each call of a function before it is recorded, until the next start or stop.

        Returns:
            Whether functions are recorded.
        """
        attached = self.plan.apis and (self._taps is not None or self._held is not None)
        if attached:
            FunctionCalls(self.current, called)
        return attached

    @property
    def current_step(self) -> int:
        """The number of the current step."""
        return self.init_step + self.loop

    @property
    def running(self) -> bool:
        """Whether the taps are attached."""
        return self._taps is not None

    @property
    def started(self) -> bool:
        """Whether the last start was not followed by a stop."""
        return self._started

    def set_init_step(self, step: int) -> None:
        """Number the steps from ``step`` on."""
        self.init_step, self.loop = step, 0

    @outside_modes
    def start(
        self,
        model: Any = None,
        rank_id: int | None = None,
        token_range: Any = None,
        scheduled_tokens: Any = None,
        computed_tokens: Any = None,
    ) -> None:
        """Begin or continue collecting. In a step or rank that the configuration leaves out nothing happens.

        Raises:
            MsprobeException: the level needs a model and there is none, or an argument cannot be used.
        """
        self._counts.starts += 1
        self.thread.busy = False  # also where an interrupt has cut off the end of what the tool did
        self._filters.begin(model, token_range, scheduled_tokens, computed_tokens)
        if self.plan.modules or self._override is not None or (model is not None and self.backend.apis_in_models):
            adopt(self.backend, self.config.level, model)
        perturb(self.backend.perturbation, model)
        if model is not None and self.backend.read_marks is not None:
            self.backend.read_marks(model)
        if self._taps is not None:
            if self._step is not None and model is not None and self.plan.modules:
                self._step.watch_parameters()  # there may be one more model
            self._note_batch()
            return
        self._started = True
        self._resume(self._collects(rank_id))
        self._note_batch()

    @outside_modes
    def stop(self) -> None:
        """Stop observing calls and publish the documents; gradients of calls that ran are recorded until ``step``."""
        if self._started:
            self._counts.add_round(self.current_step)
        self._started = False
        if self._taps is None:
            return
        self._detach()
        self._drop_lazy()
        self._filters.close(warn=True)
        self._update_rank()
        if self._step is not None:
            self._step.stop()

    @outside_modes
    def step(self, dump: bool = True) -> None:
        """End the step: publish, and number everything from 0 again. Collecting continues if it was not stopped.

        Args:
            dump: False removes what was recorded in this step; the next step has the next number all the same.
        """
        self._counts.steps += 1
        self._detach()
        self._close_step("step", discard=not dump)
        if self._override is not None:
            self._override.close()
        self.loop += 1
        if self._started:
            self._resume(self._collects(None, again=True), lazy=True)

    @outside_modes
    def return_reads(self) -> None:
        """Give what the program has read in this step to the step before it: this one is going to be forgotten."""
        if self._step is not None and self._before is not None:
            self._step.move_reads(self._before)

    @outside_modes
    def flush(self) -> None:
        """Write what the step has recorded so far, so that it survives the process."""
        if self._step is not None:
            self._step.flush()

    @outside_modes
    def focus(self, module: Any, name: str) -> None:
        """Record only the calls of focused modules, ``module`` among them as ``name``, until ``focus_end``."""
        assert self.backend.modules is not None
        self.backend.modules.focus(module, name)
        self._focused[id(module)] = module, name
        self._attach_again()

    @outside_modes
    def focus_end(self) -> None:
        """Record everything again."""
        if self.backend.modules is not None:
            self.backend.modules.focus_end()
        self._focused.clear()
        self._attach_again()

    @outside_modes
    def save(self, value: Any, name: str, backward: bool = True) -> None:
        """Record one value of the user's choice (and its gradients) in debug.json, between start and stop or not."""
        self._counts.saves += 1
        if (
            not self.plan.bodies
            or not self._step_filter.selects_step(self.current_step)
            or not self._rank_selected(None)
            or self._budget.reached
        ):
            return
        self._begin_lazy()
        if self._step is None:
            self._step = self._open_step(implicit=False)
            self.backend.reset()
        with self.thread.quiet():
            self._step.saved_values.save(name, value, backward)

    @outside_modes
    def trigger(self, kind: str, reason: str, asked: bool = False) -> None:
        """Write the steps that are kept in memory, and the present one, with the reason in their headers.

        Args:
            kind: the kind of the reason, as in ``ring.on``.
            reason: a sentence.
            asked: the user asks for it, who is told when nothing is kept.
        """
        if self._ring is not None:
            self._ring.trigger(Reason(kind, reason), self.current_step)
        elif asked:
            warn_without_ring(reason)

    def fail(self, error: BaseException) -> None:
        """Note that this exception of the program ends the open step."""
        if self._step is not None:
            self._step.fail(error)

    @outside_modes
    def reset(self) -> None:
        """Close the open step without counting it: what is collected next begins the same step anew."""
        self._counts.end_rounds()
        self._detach()
        self._close_step("reset")

    def move(self, folder: str) -> None:
        """Collect into ``folder`` from now on; a step that is open in another folder is closed."""
        root = Path(folder).absolute()
        if root != self._root:
            self.reset()
            self._root = root

    def forget_rank(self) -> None:
        """Ask for the rank again at the next start."""
        self.rank = None

    @property
    def opened(self) -> bool:
        """Whether a start has taken effect in the current step."""
        return self._step is not None or self._lazy is not None

    @outside_modes
    def close(self) -> None:
        """Publish what was not stopped, at the end of the process."""
        self._started = False
        self._detach()
        self._filters.close()
        error = uncaught_error()
        if error is not None:
            self.fail(error)
            if self._ring is not None and self._step is None:
                self._ring.trigger(Reason("exception", error_text(error)), self.current_step)
        self._close_step("exit")
        if self._ring is not None:
            self._ring.conclude()
        if self._checker is not None:
            self._checker.close()
        if self.enabled or self._counts.starts:
            self._step_filter.conclude(self._counts)
        self._budget.end()
        self.closing.close()

    def abandon(self) -> None:
        """Remove all hooks in a forked child, without touching the files of the parent."""
        if self._worker is not None:
            self._worker.abandon()
        if self._step is not None:
            self._step.unwatch_parameters()
        if self._ring is not None:
            self._ring.abandon()
        self.current.clear()
        self._step = self._lazy = None
        self._started, self.closing, self._counts = False, contextlib.ExitStack(), CallCounts()
        self._detach()
        self._filters.close()
        self._folders.leave(self.backend.runtime.rank() if self.rank is None else self.rank)
        self.rank = None

    def inherit(self) -> None:
        """Continue in a forked child that collects too, with the configuration and the step number of the parent."""
        self.renew(self.config, self._make_backend)

    # ---- internals ----

    def _collects(self, rank_id: int | None, again: bool = False) -> bool:
        """Return whether this start collects; ``again`` for a step that begins without a start."""
        selected = (
            self._rank_selected(rank_id)
            and self._selects_step()
            and not self.config.load_only
            and (self._checker is None or self._checker.selects(self.current_step))
        )
        selected = selected and (self.plan.apis or self.plan.modules)  # level debug: save() opens the step
        return selected and (self._filters.admit_next_step() if again else self._filters.admit())

    def _selects_step(self) -> bool:
        return self._step_filter.selects_step(self.current_step) and not self._budget.reached

    def _resume(self, collects: bool, lazy: bool = False) -> None:
        if collects and self._step is None:
            if lazy:
                self._lazy = LazyStep(self._begin_lazy)
            else:
                self._step = self._open_step(implicit=False)
            self.backend.reset()
        elif collects and self._step is not None:
            self._step.resume()
        if collects or self._loads():
            self._attach(collects)

    def _note_batch(self) -> None:
        if self._step is not None and self._taps is not None:
            self._step.note_batch(self._filters.batch())

    def _loads(self) -> bool:
        """Return whether inputs are replaced in this step."""
        return self._override is not None and self._override.active(self.current_step, self.rank)

    def _rank_selected(self, rank_id: int | None) -> bool:
        self._update_rank(rank_id)
        return self._step_filter.selects_rank(self.rank)

    def _update_rank(self, rank_id: int | None = None) -> None:
        """Ask for the rank until there is one; then rename the folder of an open step."""
        if self.rank is None:
            self.rank = rank_id if rank_id is not None else self.backend.runtime.rank()
            set_rank(self.rank)
            if self.rank is not None and self._step is not None and not self._step.in_memory:
                self._folders.move(self._step.folder, self.rank, self._step.rename)

    def _open_step(self, implicit: bool) -> Step:
        root, number = self._root, self.current_step
        context = StepContext(
            config=self.config,
            plan=self.plan,
            backend=self.backend,
            thread=self.thread,
            stacks=self._stacks,
            worker=self._worker,
            golden=self._golden,
            checker=self._checker,
            filters=self._filters,
            label=self._label,
            number=number,
            rank=self.rank,
            budget=self._budget.begin(),
            ring=self._ring,
            claim=lambda: self._folders.folder(root, number, self.rank),
            captured=self.captured,
        )
        judge = make_judge(context)  # before there is a folder: it may raise
        place = self._folders.place(root, number, self.rank)
        folder = context.claim() if self._ring is None else place
        return Step(context, folder, judge, implicit)

    def _end_collection(self) -> None:
        """Record nothing more: a budget is reached. The thread that has written calls this, or that of the clock."""
        self._filters.end()
        step = self._step
        if step is not None:
            step.cut_short(self._budget.reached)
        self._budget.warn(self._root)

    def _attach(self, collects: bool = True) -> None:
        if self._held is not None:
            self._detach()
        self.thread.scopes.clear()
        # when one tap cannot be attached, the others are detached again
        with noted_in(self._applied), contextlib.ExitStack() as taps:
            if collects and self.opened:
                attach_taps(self.backend, self.plan, taps, alone=bool(self._focused))
                self._show_observer()
            if self._override is not None and self._loads() and self.backend.inputs is not None:
                self._override.open(self.current_step, self.rank)
                taps.enter_context(self.backend.inputs.attach(self._override))  # outermost: the new input is recorded
            if self.backend.perturbation is not None:
                taps.enter_context(self.backend.perturbation.attach())  # what goes into the model is recorded as moved
            self._taps = taps.pop_all()

    def _attach_again(self) -> None:
        if self._taps is not None:
            self._detach()
            self._attach()

    def _show_observer(self) -> None:
        """Show the collector of the step to the taps, or the object that stands for it."""
        if self._step is not None:
            if self.plan.modules or self._focused:
                self._step.watch_parameters()
            self._filters.show(self._step.collector)
        elif self._lazy is not None:
            self._filters.show(cast(Observer, self._lazy))

    @outside_modes
    def _begin_lazy(self) -> Observer | None:
        """Open the lazy step, if there is still one; return the collector of the step that is open then."""
        lazy, self._lazy = self._lazy, None
        if lazy is not None:
            self._update_rank()
            self._step = self._open_step(implicit=True)
            self._show_observer()
        return None if self._step is None else self._step.collector

    def _drop_lazy(self) -> None:
        if self._lazy is not None:
            self._lazy = None
            self.current.clear()

    def _detach(self) -> None:
        if self._taps is None and self._held is None and not self._applied:
            return
        self.current.stop()
        for taps in (self._taps, self._held):
            if taps is not None:
                taps.close()
        self._taps = self._held = None
        while self._applied:  # where an interrupt has cut off a tap
            self._applied[-1].undo()
            self._applied.pop()
        self.thread.scopes.clear()

    def release(self) -> None:
        """Take away all that is in place, after an exception from outside has interrupted a start, a stop or a step.

        Nothing more is collected until the next start.
        """
        self._started = False
        self._detach()

    def _close_step(self, by: str, discard: bool = False) -> None:
        self._drop_lazy()
        if self._step is not None:
            self._update_rank()
            self._step.unwatch_parameters()  # as long as an interrupt leaves the step to the next call
            step, self._step = self._step, None
            self.current.clear()
            if discard:
                step.discard()
            else:
                self._before = step.document
                step.close(by)
