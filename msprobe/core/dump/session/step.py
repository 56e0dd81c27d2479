"""What exists once per recorded step: the collector, its sink, and the hooks on parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msprobe.core.backend.protocols import ModuleTap
from msprobe.core.capture.observer import Observer
from msprobe.core.dump.bounds.disk_budget import StepAccount
from msprobe.core.dump.bounds.held_sink import HeldSink
from msprobe.core.dump.bounds.value_watch import Reason
from msprobe.core.dump.record.call_record import HeaderRecord
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.dump.record.late_reads import move_reads
from msprobe.core.dump.record.saved_values import SavedValues
from msprobe.core.dump.record.step_recorder import StepOutput
from msprobe.core.dump.session import process_debugger
from msprobe.core.dump.session.input_override import feeds
from msprobe.core.dump.session.kernel_level import kernel_source
from msprobe.core.dump.session.task_factory import (
    StepContext,
    TensorFolder,
    make_collector,
    make_recorder,
    make_sink,
)
from msprobe.core.dump.tasks.judged_recorder import Judge
from msprobe.core.errors import error_text
from msprobe.core.log import logger
from msprobe.core.naming.requests import SCHEDULED_TOKENS
from msprobe.core.selection import build_selection, describe_filters, describe_sample
from msprobe.core.store.flusher import FLUSHER
from msprobe.core.store.layout import ERRORS, TENSORS
from msprobe.core.store.record_walk import INPUTS_FED, SAMPLED
from msprobe.core.store.sink import writer_mark

_BEGINNINGS = frozenset({"api_begin", "module_begin", "parameter_gradient", "enter", "graph_run", "replay", "wants"})


class Step:
    """One step being recorded into ``folder``.

    Args:
        context: what the step needs of its session.
        folder: the folder of the process.
        judge: judges the calls; None when every call is recorded.
        implicit: the step began without a start, as the step before was never stopped: when nothing happens in it,
            its files are removed.
    """

    def __init__(self, context: StepContext, folder: Path, judge: Judge | None, implicit: bool) -> None:
        config, backend, plan = context.config, context.backend, context.plan
        selection = build_selection(config)
        saves = plan.bodies and (plan.save_all or judge is not None or selection.tensors is not None)
        header = {
            "task": config.task,
            "level": config.level,
            "framework": backend.name,
            "dump_data_dir": str(folder.joinpath(TENSORS)) if saves else None,
            "written_by": writer_mark(backend.version, backend.device),
            **backend.header,
            **context.label,
            **({} if config.perturb is None else {"perturbed": config.perturb}),
            **({INPUTS_FED: config.load.path} if feeds(config.load, context.number, context.rank) else {}),
            **({SAMPLED: sample} if (sample := describe_sample(config)) else {}),
            **kernel_source(config, backend),
        }
        self._context = context
        self._implicit = implicit
        self._selection = selection
        self._unwatch: Callable[[], None] | None = None
        self._error: str | None = None
        self._cut_short = ""
        self._shared: list[list[str]] = []
        self._stopped: tuple[str | None, int] | None = None
        self._batch: Mapping[str, Any] | None = None
        self._account = StepAccount(context.budget)
        self._sink = make_sink(context, folder, header, self._account, saves)
        tensors = folder.joinpath(TENSORS) if saves and not self._sink.failed else None
        self.errors = ErrorLog(folder.joinpath(ERRORS) if context.ring is None else None)
        output = StepOutput(self._sink, self.errors)
        self.recorder = make_recorder(context, selection, output, TensorFolder(tensors, self._account), judge)
        self.collector = make_collector(context, self.recorder, self._sink)
        self.saved_values = SavedValues(self.recorder, backend)
        if judge is None:  # of judged calls nothing is written before the verdict
            FLUSHER.add(self.collector)
        if not self._sink.failed and context.ring is None:  # the sink has logged why there is no dump
            logger.info("collecting step %d into %s", context.number, folder)

    @property
    def folder(self) -> Path:
        """The folder that the step is recorded into."""
        return self._sink.folder

    @property
    def document(self) -> Path | None:
        """The dump.json of the step; None while it has none."""
        return None if self.in_memory or self._sink.failed else self._sink.document

    @property
    def in_memory(self) -> bool:
        """Whether the step has no folder yet."""
        return isinstance(self._sink, HeldSink) and self._sink.in_memory

    def resume(self) -> None:
        """Record more calls after a stop."""
        if self._stopped is not None:
            self._stopped = None
            self._sink.write(HeaderRecord(end=None))

    def note_batch(self, batch: Mapping[str, Any] | None) -> None:
        """Note which tokens of which requests this start holds (see ``naming.requests``).

        A step of several starts with different batches says of none of its tensors which rows it has: the field holds
        no requests then.
        """
        if batch is None or batch == self._batch:
            return
        several = self._batch is not None
        self._batch = batch
        self._sink.write(HeaderRecord(**{SCHEDULED_TOKENS: {"requests": []} if several else batch}))

    def fail(self, error: BaseException) -> None:
        """Note that this exception of the program ends the step."""
        self._error = error_text(error)

    def stop(self) -> None:
        """Make everything so far readable, as no more calls will be recorded, and log where it is."""
        self._note_end("stop")
        self._stopped = self._error, self.recorder.record_count
        self._sink.publish()
        if self._context.ring is not None:
            self._context.ring.settle(self._context.number)
        elif not self._sink.failed:
            logger.info("%s is at %s", self._sink.document.name, self._sink.document)

    def move_reads(self, document: Path) -> None:
        """Give what the program has read in this step to the step with another dump.json."""
        if self.document is not None:
            self._sink.publish()
            move_reads(self.document, document)

    def flush(self) -> None:
        """Fetch and write what was recorded so far, so that nothing of it is waited for later."""
        self._sink.flush()

    def watch_parameters(self) -> None:
        """Observe the gradients of the parameters from now until the step ends, and note which share memory."""
        modules = self._context.backend.modules
        if modules is not None:
            self._note_shared(modules)
        if modules is not None and self._selection.modes.parameters_grad:
            self.unwatch_parameters()
            self._unwatch = modules.attach_gradients()

    def unwatch_parameters(self) -> None:
        """Observe the gradients of the parameters no longer."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def cut_short(self, budget: str) -> None:
        """Take nothing more, as a budget is reached, whose key ends the step; any thread may call this."""
        self._cut_short = budget
        self.recorder.closed = True

    def rename(self, folder: Path) -> bool:
        """Rename the folder of the step to ``folder`` and record there; return False when that is not possible."""
        if self._context.worker is not None:
            self._context.worker.drain()
        if not self._sink.move(folder):
            return False
        self.recorder.nodes.move(folder.joinpath(TENSORS))
        self.recorder.errors.move(folder.joinpath(ERRORS))
        return True

    def close(self, by: str) -> None:
        """End the step: publish its files, and log its conclusion or why it is empty.

        Args:
            by: what ends the step, as in the field ``end`` of dump.json.
        """
        if self._implicit and not self.recorder.record_count and not self._sink.failed:
            self.discard()
            return
        if self._error is None and (by == "step" or self._stopped is not None):
            self.collector.parameters.end_step()
        self._finish()
        if self._stopped != (self._error, self.recorder.record_count):  # else the documents need not change
            self._note_end(by)
        conclusion = self.collector.conclusion()
        if conclusion is None:
            self._explain_empty()
        else:
            logger.info("%s: %s", self.folder, conclusion)
        ring = self._context.ring
        if ring is not None and self._error is not None:
            ring.trigger(Reason("exception", self._error), self._context.number)
        self._sink.close()
        if ring is not None:
            ring.end_step(self._context.number)

    def discard(self) -> None:
        """End the step and remove what was recorded."""
        self._finish()
        if self._context.worker is not None:
            self._context.worker.drain()
        if self._context.ring is not None:
            self._context.ring.drop_open()
        self._sink.discard()
        logger.info("what was recorded in %s is discarded: it belongs to no step", self.folder)

    @never_raises
    def _note_shared(self, modules: ModuleTap) -> None:
        shared = modules.shared_parameters()
        if shared != self._shared:
            self._shared = shared
            self._sink.write(HeaderRecord(shared_storage=shared))

    def _note_end(self, by: str) -> None:
        end = {"by": self._cut_short or by}
        if self._error is not None:
            end = {"by": "exception", "error": self._error}
        self._sink.write(HeaderRecord(end=end))

    def _finish(self) -> None:
        """Take nothing more."""
        FLUSHER.remove(self.collector)
        self.saved_values.finish()
        self.collector.end_step()
        if self._context.backend.collectives is not None:
            self._context.backend.collectives.reset()

    def _explain_empty(self) -> None:
        if self.recorder.record_count or self._sink.failed:
            return
        filters = describe_filters(self._context.config)
        names = ", ".join(self.recorder.skipped)
        if names:
            reason = f"{filters} let nothing through; names seen: {names}"
        elif filters:
            reason = f"no call was seen that {filters} could choose from"
        else:
            reason = self._reason_without_calls()
        logger.warning("step is empty (%s): %s", self.folder, reason)
        self._sink.add_header({"why_empty": reason})

    def _reason_without_calls(self) -> str:
        config = self._context.config
        if config.level == "L0":
            return "no call of a module inside the model was seen between start and stop (the model itself is no entry)"
        if config.level != "L1" or not self._context.backend.has_risk_levels:
            return "no call was seen between start and stop"
        compiled = "of compiled code PrecisionDebugger records the modules alone, at levels L0 and mix"
        if config.risk_level == "ALL":
            return f"no call was seen between start and stop ({compiled})"
        return f"no API of risk_level {config.risk_level} was called (risk_level ALL records all; {compiled})"


class LazyStep:
    """Stands for the observer of a step that nobody started, until the first call opens that step.

    A step that follows one which was never stopped begins in this way: so a server that is idle between two requests
    leaves no empty folder behind, not even during the pause. Methods that begin something open the step; the others
    concern calls of a step that is open, and do nothing before.

    Args:
        begin: opens the step and returns its observer; None when the step is no longer wanted.
    """

    def __init__(self, begin: Callable[[], Observer | None]) -> None:
        self.errors = ErrorLog(None)
        self._begin: Callable[[], Observer | None] | None = begin
        self._observer: Observer | None = None

    def __getattr__(self, method: str) -> Any:
        """Return a method of the step's observer; one that does nothing when there is no observer."""
        if method in _BEGINNINGS:
            self.open_step()
        return _do_nothing if self._observer is None else getattr(self._observer, method)

    @never_raises
    def open_step(self) -> None:
        """Open the step unless it is open. What keeps it from opening is logged once, and there is no step then."""
        if self._begin is None:
            return
        with process_debugger.LOCK:
            begin, self._begin = self._begin, None
            if begin is not None:  # no other thread was faster
                self._observer = begin()


def _do_nothing(*arguments: Any) -> None:
    """Do nothing, as a method of an observer that is absent."""
