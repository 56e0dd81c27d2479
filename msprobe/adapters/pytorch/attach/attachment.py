"""Follows the calls of a program, and starts and ends the iterations that are recorded (docs/adr/0030).

An iteration begins with the first call of a model that belongs to a training, or with an optimizer that calls the model
itself (``step(closure)``). After its updates it lasts until the program calls, clears, loads or differentiates
something for the next one, or ends: averages of parameters and copies of models are updated in between. Models that are
not trained are recorded inside of iterations. A call of one may also begin an iteration, and so may a call of a trained
model in modes of evaluation: it is forgotten when no training follows. Evaluation between the iterations is left out
(``call_modes``); a program that only evaluates is collected as one step.

A program that calls functions alone, and no model, is followed by those that are called with a tensor which needs a
gradient.

What a data loader calls is data: nothing of it is recorded, neither in this process nor in its workers. Nor is what a
thread of the program calls that trains nothing, beside one that does.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, cast

import torch
from torch import nn
from torch.utils.data import dataloader, get_worker_info

from msprobe.adapters.pytorch.attach.call_modes import AutogradModes, ThreadUse, Use
from msprobe.adapters.pytorch.attach.collection import Collection, script_debugger
from msprobe.adapters.pytorch.attach.iterations import MOST_LEAVES, Iterations, Site, call_site
from msprobe.adapters.pytorch.attach.models import Call, Model, Models, not_named
from msprobe.adapters.pytorch.attach.module_tree import (
    is_differentiable,
    is_part_of_formula,
    leaves_below,
    leaves_given,
    leaves_of,
    only_prepares,
    parameters_of,
    tensors_in,
)
from msprobe.adapters.pytorch.attach.optimizers import Optimizers
from msprobe.adapters.pytorch.compile.compiled_functions import compiled_code_ran, modules_used, watched_compile
from msprobe.adapters.pytorch.compile.compiled_models import class_name
from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced, outermost, skip_in_dynamo
from msprobe.adapters.pytorch.tensors.operation_modes import in_modes, outside_modes
from msprobe.core.capture.direct_calls import ReplacedMethods, with_globals_of
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.slots import Slot
from msprobe.core.dump.session.process_debugger import at_end_of_child, peek, uncaught_error
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import ignored, let_through
from msprobe.core.log import first_time, logger, use_stream
from msprobe.core.naming.names import is_product

_NO_UPDATE = (
    "no update was seen, so all is one step (where it has iterations, make a PrecisionDebugger in the script and call "
    "its step() after each)"
)
_COMPILED_HINT = (
    " (compiled code ran, and names no model where msprobe looks: compile the model itself, torch.compile(model), or "
    "make a PrecisionDebugger in the script)"
)
_TRANSPARENT = {"DistributedDataParallel", "FullyShardedDataParallel"}
"""Wrappers whose call is not that of the model: what they do before it is no part of the model."""
_MOST_SEARCHES = 16

_graph_task = torch._C._current_graph_task_id
P = ParamSpec("P")
Note = Callable[..., None]
"""``note(event, **facts)`` tells the launcher (``jobs/programs/launcher.py``) what happened."""


def ignore(event: str, **facts: Any) -> None:
    """Take no note: nobody waits for this process."""


def _guarded(method: Callable[P, None]) -> Callable[P, None]:
    """Decorate a method that looks at objects of the program: an error in it ends the collection, not the program, and
    modes of the program do not see it."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with outside_modes() if in_modes() else contextlib.nullcontext():
                method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must go on
            let_through(error)
            cast(Attachment, args[0]).give_up(error)

    return guarded


class Attachment:
    """Follows the calls of this process. No error in here reaches the program.

    Args:
        collection: records the iterations.
        model: the class of the only model; None for every model.
        note: tells the launcher what happened.
    """

    def __init__(self, collection: Collection, model: str | None, note: Note = ignore) -> None:
        self._collection = collection
        self._note = note
        self._process = os.getpid()
        self._thread = ThreadUse()
        self._modes = AutogradModes()
        self._disabled = False
        self._optimizers = Optimizers(self)
        self._models = Models(model, self._optimizers.held)
        self._iterations = Iterations()
        self._patches = Patches()
        self._direct = ReplacedMethods(nn.Module, "forward", self._observed_forward)
        self._open = False  # an iteration has begun
        self._complete = False  # and has made its updates: it ends before what the program does next
        self._running = False  # and is recorded: there is no evaluation inside it
        self._started: set[int] = set()  # the ids of the models that are recorded in it
        self._tentative: Site | None = None  # where a call that may be evaluation has begun it
        self._empty = False  # an optimizer has begun it, and called no model yet
        self._whole = False  # an optimizer that calls the model itself makes a whole iteration
        self._for_training: set[Site] = set()
        self._for_evaluation: set[Site] = set()
        self._began: Site | None = None  # the call that has begun the iteration
        self._beginnings: Counter[Site] = Counter()  # how many iterations each call has begun
        self._between: dict[Site, int] = {}  # calls that came after an iteration, and how many there were
        self._closures_call = True
        self._unseen = 0  # updates before which no call of a model was seen
        self._ended = 0
        self._alone = False  # calls of functions are followed, as no model is called
        self._predicts = self._multiplies = False  # and recorded before anything is trained; matrices are multiplied
        self._came_back = True  # no function was called again since the last backward pass
        self._loaded: dict[str, str] = {}  # what makes data, and where
        self._has_begun = False
        self._expects = False

    def install(self) -> None:
        """Replace the calls of modules, optimizers and data loaders, until ``remove`` or the end of the process.

        The standard output is that of the program, which knows nothing of msprobe: what is logged goes to stderr.
        """
        use_stream("stderr")
        patches = self._patches
        patches.plan(nn.Module, "__call__", outermost(nn.Module.__call__, self._observed_call))
        originals = functools.partial(RECOMPILE_GUARD.originals, self._direct)
        compiler = watched_compile(torch.compile, self._observed_function, skip_in_dynamo, originals)
        patches.plan(torch, "compile", compiler)
        patches.plan(torch.autograd, "backward", outermost(torch.autograd.backward, self._observed_backward))
        patches.plan(torch.autograd, "grad", outermost(torch.autograd.grad, self._observed_grad))
        patches.plan(torch.Tensor, "requires_grad_", self._observed_leaf(torch.Tensor.requires_grad_))
        patches.plan(torch.autograd.Function, "apply", self._modes.observed_apply(torch.autograd.Function.apply))
        for owner in (torch.optim.Optimizer, nn.Module):
            patches.plan(owner, "zero_grad", outermost(owner.zero_grad, self._observed_clearing))
        patches.plan(nn.Module, "register_parameter", self._observed_making(nn.Module.register_parameter))
        loader = dataloader._BaseDataLoaderIter
        patches.plan(loader, "__next__", self._observed_loading(loader.__next__))
        self._optimizers.plan(patches)
        self._direct.apply()
        patches.apply()
        atexit.register(self.conclude)

    def remove(self) -> None:
        """Put back what was replaced; nothing more is recorded."""
        self._disabled = True
        use_stream("stdout")
        self._direct.undo()
        self._patches.undo()
        self._optimizers.release()
        atexit.unregister(self.conclude)
        atexit.unregister(self.finish)

    # ---------------------------------------------------------------- what stands for functions of torch

    def _observed_call(self, slot: Slot) -> Any:
        # the frame must not look up global names: it may stand for a method of the program (see with_globals_of)
        traced, thread, by_name, observe = is_traced, self._thread, self._models.wanted is not None, self._called

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if traced() or self._disabled or (thread.inside and not by_name) or not observe(module):
                return slot.function(module, *args, **kwargs)
            thread.inside += 1
            try:
                return slot.function(module, *args, **kwargs)
            finally:
                thread.inside -= 1

        return call

    def _observed_forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return outermost(original, lambda slot: with_globals_of(original, self._observed_call(slot)))

    def _observed_function(self, function: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return what calls a compiled function, in which calls of models are not seen, as calls of its models."""
        used: list[Model] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            thread = self._thread
            if is_traced() or self._disabled or thread.inside or thread.in_compiled:
                return compiled(*args, **kwargs)
            if not any(model.module is not None for model in used):
                used[:] = self._models_in(modules_used(function, args, kwargs))
            self._call_all(used, call_site())
            thread.in_compiled += 1
            try:
                return compiled(*args, **kwargs)
            finally:
                thread.in_compiled -= 1
                if self._optimizers.stepped_in_compiled:
                    self._optimizers.stepped_in_compiled = False
                    self.update_ends(self._optimizers.training())

        return call

    def _observed_backward(self, slot: Slot) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._complete and not is_traced():
                self._end_if_complete()
            result = slot.function(*args, **kwargs)
            if not is_traced() and self._open:
                self._went_backward()
            if not is_traced() and self._may_be_alone():
                results = args[0] if args else kwargs.get("tensors")
                self._differentiated(leaves_of(tensors_in((results,)), MOST_LEAVES))
            return result

        return backward

    def _observed_grad(self, slot: Slot) -> Any:
        def grad(*args: Any, **kwargs: Any) -> Any:
            result = slot.function(*args, **kwargs)
            if not is_traced() and not is_part_of_formula(tensors_in((result,))):
                inputs = tensors_in(args[1:2] or (kwargs.get("inputs"),))
                if self._may_be_alone():
                    self._differentiated(leaves_below(inputs))
                elif self._open and any(isinstance(one, nn.Parameter) for one in inputs):
                    self._went_backward()
            return result

        return grad

    def _observed_leaf(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def requires_grad_(*args: Any, **kwargs: Any) -> Any:
            if not self._alone and not is_traced() and self._may_be_alone():
                self._follow_functions()
            return original(*args, **kwargs)

        return requires_grad_

    def _observed_clearing(self, slot: Slot) -> Any:
        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if not (is_traced() or self._disabled or self._thread.inside or self._optimizers.updating):
                self._clear(owner, call_site())
            return slot.function(owner, *args, **kwargs)

        return zero_grad

    def _observed_making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def register_parameter(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not self._expects and not self._disabled:
                self._prepare()
            return original(module, *args, **kwargs)

        return register_parameter

    def _observed_loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fetch(loader: Any) -> Any:
            if not self._disabled:
                self._fetch(call_site())
            self._thread.loading += 1
            try:
                return original(loader)
            finally:
                self._thread.loading -= 1

        return fetch

    # ---------------------------------------------------------------- calls of models

    def _called(self, module: nn.Module) -> bool:
        """Take note of a call of a module; return whether what it calls is inside of it."""
        if self._models.settled and self._models.known(module) is None:
            return True
        if os.getpid() != self._process or get_worker_info() is not None:  # a worker, whose modules make data
            self._disabled = True
        elif self._thread.loading:
            self._loaded[class_name(module)] = "called by a data loader"
        elif type(module).__name__ in _TRANSPARENT and self._models.wanted is None:
            return False
        elif _graph_task() == -1 and not only_prepares():  # a backward pass repeats a call
            self._find_and_call(module, call_site())
        return True

    @_guarded
    def _find_and_call(self, module: nn.Module, site: Site) -> None:
        model = self._models.find(module)
        if model is not None:
            self._model_called(model, module, site)

    @_guarded
    def _call_all(self, models: Iterable[Model], site: Site) -> None:
        for model in models:
            if (module := model.module) is not None:
                self._model_called(model, module, site)

    def _models_in(self, modules: Iterator[nn.Module]) -> list[Model]:
        """Return the models that a compiled function uses: the first one, and those that are trained."""
        found: list[Model] = []
        held = self._optimizers.held()
        try:
            for module in modules:
                trained = not parameters_of(module).isdisjoint(held)
                model = self._models.find(module) if trained or not found else None
                if model is not None and model not in found:
                    found.append(model)
        except Exception as error:  # noqa: BLE001 - objects of the program are looked at, and it must go on
            let_through(error)
            if first_time("run: compiled function"):
                logger.warning(
                    "msprobe run: the model that a compiled function calls cannot be looked for (%s): make a "
                    "PrecisionDebugger in the script",
                    error_text(error),
                )
        return found

    def _model_called(self, model: Model, part: nn.Module, site: Site) -> None:
        module = model.module
        if module is None or self._disabled:
            return
        trained, optimized = self._models.trains(model, part), self._optimizers.made > 0
        if self._thread.prepares_data(self._collection.leave_out_thread, trained=trained, optimized=optimized):
            self._loaded[class_name(module)] = "called in a thread that trains nothing"
            return
        self._end_alone()
        self._complete &= not self._iterations.goes_round(module, site)
        self._end_if_complete()
        if self._open and self._iterations.was_tried(module):
            self._forget()
        if self._open and not self._optimizers.updating and self._begins_next(module, site):
            self._end()
        call = Call(model, module, part, site)
        if self._tentative is not None and site in self._beginnings:
            self._set_apart(self._tentative, site)
        if self._is_aside(model, part):
            self._call_aside(call)
        else:
            self._call_trained(call)
        if not self._open:
            self._iterations.ahead(module, site)

    def _begins_next(self, module: nn.Module, site: Site) -> bool:
        """Return whether a call of a model comes after the end of this iteration."""
        optimized = self._optimizers.made > 0
        looks = not optimized and self._modes.use_of(module) is Use.INFERENCE
        return self._iterations.comes_back(module, site, optimized) or (looks and self._iterations.is_looked_at(module))

    def _is_aside(self, model: Model, part: nn.Module) -> bool:
        """Return whether a model is there for those that the program trains; without an optimizer nobody can tell."""
        return bool(self._optimizers.made) and not self._models.trains(model, part)

    def _call_trained(self, call: Call) -> None:
        """Record a call of a model that is trained, unless it is evaluation."""
        use, calls = self._modes.use_of(call.module), call.model.calls
        if self._running and self._was_evaluation(call, use):
            self._forget_evaluation()
        if self._running and self._tentative is None and (use is Use.TRAINING or call.module.training):
            self._record(call)
        elif calls.admit(use):
            self._confirm()
            self._record(call)
        elif self._may_be_training(call, use):
            self._call_aside(call)
        elif self._tentative is not None:
            self._forget_evaluation()
        else:
            self._leave_out(call.model)

    def _set_apart(self, begun: Site, site: Site) -> None:
        """Forget the iteration that ``begun`` has begun, where other ones began with the call at ``site`` without it.

        What comes so after the first iteration comes after iterations, such as the evaluation of averaged weights.
        What comes later, before one iteration after another, belongs to them: a teacher that is asked after a warm-up.
        """
        if begun == site or begun in self._for_training:
            return
        if self._beginnings[site] == 1:
            self._forget_evaluation()
        elif self._between.get(begun) != self._ended - 1:
            self._between[begun] = self._ended
            self._forget()

    def _leave_out(self, model: Model) -> None:
        """Record nothing of an evaluation."""
        if self._running:
            self._running = False
            self._collection.pause()
        elif first_time(f"run: evaluation of {model}"):
            text = "msprobe run: calls of %s without autograd, or of evaluation, are left out where no training begins"
            logger.info(text, model)

    def _may_be_training(self, call: Call, use: Use) -> bool:
        """Return whether a call of a trained model in modes of evaluation may still belong to a training.

        After ``model.eval()`` that is one with autograd, outside of an iteration in another mode. Without autograd it
        is one in training mode whose results another model may be trained with: such calls are there from the first
        iteration on, others look at what was trained.
        """
        if use is Use.EVAL_MODE:
            return self._tentative is not None or not self._open
        begins = not self._ended or call.site in self._for_training
        return call.module.training and (begins or self._tentative is not None)

    def _confirm(self) -> None:
        """Take note that the iteration belongs to a training, whatever model has begun it."""
        if self._tentative is not None:
            self._for_training.add(self._tentative)
            self._tentative = None

    @_guarded
    def _went_backward(self) -> None:
        self._iterations.backward()
        self._confirm()
        for model in self._models if self._running else ():
            if model.number in self._iterations.called():
                model.calls.learn_from_backward()

    @_guarded
    def _clear(self, owner: Any, site: Site) -> None:
        """Take note that gradients are cleared, at the end of this iteration or at the beginning of the next one."""
        self._thread.trains = True
        self._note_call(owner, site, ".zero_grad")

    @_guarded
    def _fetch(self, site: Site) -> None:
        """Take note that a batch is fetched; each epoch has an iterator of its own."""
        if os.getpid() == self._process:
            self._end_if_complete()
            self._begin_anew(None, site)

    def _note_call(self, owner: Any, site: Site, method: str) -> None:
        """Take note of a call of an optimizer, or of a model for something else than its result."""
        if self._open and self._iterations.comes_back(owner, site, self._optimizers.made > 0, method):
            self._end()
        self._begin_anew(owner, site)

    def _begin_anew(self, owner: Any, site: Site) -> None:
        """Take note of a call, before which an iteration ends that the program has given up; another thread, which
        fetches ahead, gives none up."""
        begun = self._open and self._tentative is None and self._thread.calls
        if begun and self._iterations.is_given_up(owner, site):
            self._end()
        note = self._iterations.note if self._open else self._iterations.ahead
        note(owner, site)

    def _was_evaluation(self, call: Call, use: Use) -> bool:
        """Return whether the iteration so far is evaluation, as a call shows of what was called in it."""
        if self._iterations.went_backward:
            return False
        if self._tentative is not None:
            return call.model.calls.counts(use) and self._iterations.has_called(call.part)
        return call.model.calls.exceeds(use) and self._iterations.called() == {id(call.module)}

    def _call_aside(self, call: Call) -> None:
        """Record a call that may be evaluation: inside of an iteration, or where it may begin one."""
        if self._tentative is not None and self._iterations.is_repeated(call.module, call.site):
            self._forget_evaluation()
        if self._running:
            self._record(call)
        elif not self._open and (call.site not in self._for_evaluation or call.site in self._for_training):
            self._record(call)
            self._tentative = call.site

    def _record(self, call: Call) -> None:
        """Begin or continue the iteration that a call belongs to."""
        if not self._open:
            self._began = call.site
        if not self._running:
            self._start(call.model)
        elif id(call.module) not in self._started:
            self._start_collection([one for one in self._models if one.number in self._started or one is call.model])
        self._empty, self._thread.calls = False, True
        self._iterations.call(call.module, call.part, call.site)
        if call.model.trains:
            self._iterations.watch(call.module, self._optimizers.made > 0)

    # ---------------------------------------------------------------- functions alone

    def _may_be_alone(self) -> bool:
        """Return whether the program may be one that calls functions alone: no model was called."""
        unseen = not any(self._models) and self._models.wanted is None
        return unseen and not (self._disabled or self._thread.inside or self._thread.loading)

    @_guarded
    def _follow_functions(self, *, late: bool = False) -> None:
        """Be told of calls of functions: the first one by which autograd can differentiate begins an iteration."""
        if os.getpid() == self._process:
            self._expect()
            self._alone = not self._disabled and self._collection.watch_functions(self._function_called)
        if self._alone and late:
            logger.info(
                "msprobe run: no model is called, and functions are recorded from here on: what comes before the first "
                "backward pass is in no step"
            )

    def _watch_functions(self) -> None:
        """Be told of calls of functions further on, after what is recorded has changed."""
        if self._alone and not self._disabled:
            self._collection.watch_functions(self._function_called)

    @_guarded
    def _differentiated(self, leaves: list[torch.Tensor]) -> None:
        """Take note that a program which calls no model has differentiated by ``leaves``."""
        if self._alone and self._open:
            self._iterations.backward()
            self._iterations.look_at(leaves)
            self._came_back = False
        elif not self._alone and leaves:
            self._follow_functions(late=True)

    @_guarded
    def _function_called(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take note of a call of a function before it is recorded: it may begin an iteration.

        Only the first call after a backward pass that comes back to a place is asked whether there was an update.
        """
        if not self._alone or not self._may_be_alone() or os.getpid() != self._process:
            return
        if self._open and self._iterations.went_backward and self._came_back and not self._complete:
            return
        if not torch.is_grad_enabled() or _graph_task() != -1 or not is_differentiable(args, kwargs):
            self._predict(name)
            return
        if self._predicts:
            self._forget()
        site = call_site()
        self._end_if_complete()
        if self._open and self._iterations.went_backward:
            if not self._iterations.is_repeated(None, site):
                return
            self._came_back = True
            others = self._iterations.begins_with_others(site, leaves_given(args, kwargs))
            if not others and not self._iterations.comes_back(None, site, self._optimizers.made > 0):
                return
            self._end()
        if not self._open:
            self._start()
            self._watch_functions()
            self._iterations.begin_with(site, leaves_given(args, kwargs))
        self._iterations.note(None, site)

    def _predict(self, name: str) -> None:
        """Record what may only predict, until it trains or calls a model. What multiplies no matrices is no model."""
        if not (self._predicts or self._has_begun or self._open or only_prepares()) and self._collection.try_out():
            self._iterations.begin()
            self._open = self._running = self._predicts = True
            self._finish_at_end()
            self._watch_functions()
        self._multiplies = self._predicts and (self._multiplies or is_product(name))

    def _end_alone(self) -> None:
        """Take the program for one that calls models: what it called before is forgotten where nothing was trained."""
        if self._alone:
            self._alone = False
            if self._open:
                (self._end if self._iterations.went_backward else self._forget)()

    # ---------------------------------------------------------------- optimizers (UpdateReports)

    @_guarded
    def optimizer_made(self) -> None:
        """Look at the models that a new optimizer trains: a call of their ``forward`` alone is a call of them."""
        if self._disabled:
            return
        self._thread.trains = True
        for module in self._models.expect_training(self._optimizers.made <= _MOST_SEARCHES):
            self._direct.cover(module)
        parts = {model.number for model in self._models if model.is_part}
        if self._open and not self._iterations.went_backward and self._iterations.called() <= parts:
            self._forget()
        self._iterations.optimizer_made()
        if not self._open:
            self._models.drop_parts()
        self._prepare()

    def _prepare(self) -> None:
        """Prepare for a first iteration: of a model, or of functions that get its parameters, as long as it is not
        called."""
        if self._may_be_alone():
            self._follow_functions()
        else:
            self._expect()

    @_guarded
    def _expect(self) -> None:
        """Prepare for the first iteration, when the program makes a model or an optimizer: what is put in place with
        its first call comes too late for a function that the program looks up before."""
        self._expects = True
        if os.getpid() == self._process:
            self._collect(self._collection.expect)

    @_guarded
    def update_begins(self, optimizer: Any, by_closure: bool) -> None:
        """Go on with an iteration that was paused; begin one where the optimizer itself calls the model."""
        if self._disabled or os.getpid() != self._process:
            return
        self._end_if_complete()
        self._whole = by_closure and self._optimizers.holds_all(optimizer)
        if by_closure:
            self._note_call(optimizer, call_site(), ".step")
        if self._whole and self._open and self._iterations.updates:
            self._end()
        if self._running:
            return
        if self._open:
            self._start()
        elif by_closure and self._closures_call:
            self._start()
            self._empty = True

    @_guarded
    def update_ends(self, optimizers: Iterable[int]) -> None:
        """Take note of an update, which may end the iteration."""
        if os.getpid() != self._process and get_worker_info() is None:
            self._tell_of_fork()
        if self._disabled or os.getpid() != self._process:
            return
        if self._open and self._empty:
            self._closures_call = False  # whatever the optimizer called is no model
            self._forget()
        if self._open:
            self._complete = self._iterations.update(optimizers, self._optimizers.training(), whole=self._whole)
            if self._complete:
                self._collection.complete()
            return
        left_out = [model for model in self._models if model.calls.last_left_out]
        self._unseen += not left_out
        for model in left_out:
            model.calls.learn_from_step()

    def _tell_of_fork(self) -> None:
        """Say that this process, a forked one, trains and is not followed."""
        self._disabled = True
        if peek() is None and first_time(f"run: forked {os.getpid()}"):
            text = (
                f"process {os.getpid()} trains and is not followed, as it was forked after torch was imported; start "
                "it by spawn, or make a PrecisionDebugger in it"
            )
            self._note("reason", text=text)
            logger.warning("msprobe run: %s", text)

    # ---------------------------------------------------------------- iterations

    def _start(self, *called: Model) -> None:
        """Begin an iteration with the models that earlier ones had, or go on with one that was paused."""
        if not self._open:
            self._iterations.begin()
            self._tentative, self._empty = None, False
        self._started.clear()
        self._start_collection([model for model in self._models if model.recorded or model in called])

    def _start_collection(self, models: Iterable[Model]) -> None:
        named = {model.name: module for model in models if (module := model.module) is not None}
        self._collect(functools.partial(self._collection.start, named))
        if self._disabled:
            return
        self._started.update(map(id, named.values()))
        self._open = self._running = True
        if not self._has_begun:
            self._has_begun = True
            self._finish_at_end()

    def _finish_at_end(self) -> None:
        atexit.unregister(self.finish)
        atexit.register(self.finish)  # registered later than the end of the session, it runs before that
        at_end_of_child(self.finish)

    def _collect(self, method: Callable[[], None]) -> None:
        """Let the collection begin; where it cannot, nothing is recorded."""
        try:
            method()
        except (MsprobeException, OSError) as error:
            let_through(error)
            self._disabled = True
            self._note("reason", text=str(error))
            logger.error("msprobe run: nothing is collected: %s", error)

    @_guarded
    def _end_if_complete(self) -> None:
        """End an iteration that has made its updates, before what belongs to the next one."""
        if self._complete and os.getpid() == self._process:
            self._end()

    def _end(self) -> None:
        self._confirm()
        self._open = self._running = self._complete = False
        self._collection.end()
        self._watch_functions()
        self._ended += 1
        if self._began is not None:
            self._beginnings[self._began] += 1
            self._began = None
        called = self._iterations.called()
        new = [model for model in self._models if not model.recorded and model.number in called]
        for model in new:
            model.recorded, model.is_part = True, False
        if self._ended == 1:
            self._introduce()
        elif new:
            subject = self._collection.subject
            logger.info("%s is attached to %s too, called later than the others", subject, ", ".join(map(str, new)))

    def _forget(self) -> None:
        self._open = self._running = self._predicts = False
        self._tentative = self._began = None
        called = self._iterations.called()
        aside = [one for one in self._models if one.number in called and not (one.recorded or one.is_part)]
        if self._ended and (names := ", ".join(not_named(aside))):
            logger.info("%s leaves out %s, called between the iterations", self._collection.subject, names)
        self._iterations.forget()
        self._collection.forget()
        self._watch_functions()

    def _forget_evaluation(self) -> None:
        """Forget an iteration without a call of a training; the call that has begun it begins no other one."""
        if self._tentative is not None:
            self._for_evaluation.add(self._tentative)
        self._forget()

    def _introduce(self) -> None:
        """Log what is recorded, what is not, and where steps end."""
        called = self._iterations.called()
        recorded = [model for model in self._models if model.number in called]
        models = ", ".join(map(str, sorted(recorded, key=lambda model: not model.trains)))
        left_out = [f"{name} ({where})" for name, where in self._loaded.items()]
        left_out += not_named(model for model in self._models if model not in recorded)
        rest = f"; left out: {', '.join(left_out)}" if left_out else ""
        ends = f"a step ends {self._iterations.ended_by}" if self._iterations.ended_by else _NO_UPDATE
        self._note(self._collection.event, model=models)
        subject, attached = self._collection.subject, models or "functions alone, as no model is called"
        logger.info("%s is attached to %s%s; %s", subject, attached, rest, ends)

    # ---------------------------------------------------------------- the end of the program

    @_guarded
    def finish(self) -> None:
        """End the iteration that is open, or forget it if it is no part of a training."""
        if os.getpid() != self._process or self._disabled:
            return
        self._collection.settle()
        if self._predicts and not (self._multiplies and self._collection.keep()):
            self._forget()
            self._collection.settle()
        if not self._open or uncaught_error() is not None:
            self._end_if_complete()
        elif self._iterations.updated(self._optimizers.made > 0):
            self._end()
        elif (
            self._tentative is not None
            or self._is_prediction()
            or (self._alone and not (self._iterations.went_backward or self._predicts))
        ):
            self._forget()
            self._collection.settle()
        elif not self._ended:
            self._introduce()

    def _is_prediction(self) -> bool:
        """Return whether the calls of this iteration follow a training of which no call was seen."""
        return self._unseen > 0 and not self._ended and not self._iterations.went_backward

    def conclude(self) -> None:
        """Note at the end of the process how many iterations there were, or why there was none."""
        if os.getpid() != self._process or self._disabled:
            return
        self._collection.conclude()
        if self._ended or self._open:
            self._note("steps", steps=self._ended)
        elif script_debugger() is not None and not self._has_begun:
            self._note("own debugger")
        else:
            hint = _COMPILED_HINT if compiled_code_ran() else ""
            self._note("reason", text=self._models.why_nothing(self._unseen, hint, has_begun=self._has_begun))

    def give_up(self, error: Exception) -> None:
        """Record nothing more, after an error of the tool."""
        self._disabled = True
        self._note("reason", text=error_text(error))
        logger.error("msprobe run: nothing more is recorded: %s", error_text(error))
        if self._running:
            self._running = False
            with ignored(Exception):
                self._collection.pause()
