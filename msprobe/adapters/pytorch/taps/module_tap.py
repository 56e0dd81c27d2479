"""Module calls, observed by replacing ``nn.Module.__call__`` while collecting.

One patch takes the place of hooks on every module: it sees keyword arguments and exceptions, module objects are not
changed (so copies and pickles of a model hold nothing of the tool), and the user's hooks run inside it as usual. Calls
of ``forward`` that go round it are seen by the methods of the classes (``direct_calls``).
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS, Target
from msprobe.adapters.pytorch.compile.compiled_models import (
    CompiledModels,
    class_name,
    tell_of_graph_breaks,
    tell_of_scripts,
)
from msprobe.adapters.pytorch.compile.compiled_probes import observe
from msprobe.adapters.pytorch.compile.exported_models import ExportedModels, ObserveFunction, exported_class
from msprobe.adapters.pytorch.compile.recompilation import (
    RECOMPILE_GUARD,
    is_traced,
    reported,
    reporting_versions,
    skip_in_dynamo,
)
from msprobe.adapters.pytorch.taps.gradient_tap import TensorHook, TorchGradientTap
from msprobe.adapters.pytorch.taps.parameter_names import ParameterNames
from msprobe.adapters.pytorch.taps.training.gradient_threads import GradientThreads
from msprobe.adapters.pytorch.taps.training.nested_backward import NestedBackward
from msprobe.adapters.pytorch.tensors.memory import PLAIN, WithoutSubclass
from msprobe.adapters.pytorch.tensors.sharding import FlatParameter, find_shards, flat_parameters, is_sharded
from msprobe.core.capture.direct_calls import ReplacedMethods, wrap_direct_call
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches, Undo, note_applied
from msprobe.core.capture.slots import place_of
from msprobe.core.capture.thread_state import Quiet, ThreadState
from msprobe.core.capture.wrap import Tracing, module_call_in_place, wrap_module_call
from msprobe.core.dump.record.module_names import Entry, ModuleNames, NamedModule, make_named_module
from msprobe.core.dump.session.debugger import models_with_prefixes
from msprobe.core.errors import MsprobeException, argument_text

_jit_tracing = torch._C._get_tracing_state  # what is measured meanwhile would become part of the traced program


class TorchModuleTap:
    """Implements ``ModuleTap``. The models themselves have no name and no record; their submodules do.

    Args:
        current: holds the current observer.
        thread: is made busy while a call is observed.
        gradients: finds the gradients of calls inside compiled code.
        observe_function: observes functions that were called in a program before it was exported.

    Attributes:
        parameter_names: the names of the parameters of the adopted models.
        passes: adds up what nested backward passes bring; whoever sees passes begin and end tells it.
        gradient_threads: the threads that compute gradients.
    """

    def __init__(
        self,
        current: CurrentObserver,
        thread: ThreadState,
        gradients: TorchGradientTap,
        observe_function: ObserveFunction = lambda api, original: original,
    ) -> None:
        self._current = current
        self._thread = thread
        self._sites = ModuleNames()
        self._target = Target(current, gradients, self._sites.get, functools.partial(Quiet, thread))
        self._compiled = CompiledModels()
        self._exported = ExportedModels(self._sites, (current, thread), observe_function)
        self._observed: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._hooks: list[Any] = []
        self._direct = ReplacedMethods(nn.Module, "forward", self._direct_call)
        self.passes = NestedBackward()
        self.parameter_names = ParameterNames()
        self.gradient_threads = GradientThreads()
        self._focused: dict[str, NamedModule] = {}
        self._unfocused: dict[int, Entry] | None = None

    def adopt(self, model: Any) -> None:
        models = models_with_prefixes(model, nn.Module, "torch.nn.Module", "Module")
        for head, part in models:
            tell_of_scripts(head, part)
        named: set[int] = set()  # within one call the first name counts; a later start names its models anew
        with self._with_hidden():
            for head, part in models:
                self._adopt(head, part, named)

    def focus(self, module: Any, name: Any) -> None:
        if not isinstance(module, nn.Module):
            raise MsprobeException(0, f"module_dump: expected a torch.nn.Module, got {type(module).__name__}")
        if not isinstance(name, str) or not name:
            raise MsprobeException(0, f"module_dump: the name is a non-empty str, got {argument_text(name)}")
        stem = f"Module.{name}.{type(module).__name__}"
        site = self._focused.setdefault(stem, make_named_module(stem, module, _own_parameters))
        shown = {} if self._unfocused is None else dict(self._sites.by_id)
        if self._unfocused is None:
            self._unfocused = dict(self._sites.by_id)
        self._show({**shown, id(module): (weakref.ref(module), site)})

    def focus_end(self) -> None:
        if self._unfocused is not None:
            self._show(self._unfocused)
            self._unfocused = None

    @contextlib.contextmanager
    def _with_hidden(self) -> Iterator[None]:
        """Register the modules that ``focus`` hides again, inside this context."""
        if self._unfocused is None:
            yield
            return
        shown = dict(self._sites.by_id)
        self._show(self._unfocused)
        try:
            yield
        finally:
            self._unfocused = dict(self._sites.by_id)
            self._show(shown)

    def _show(self, sites: dict[int, Entry]) -> None:
        self._sites.by_id.clear()
        self._sites.by_id.update(sites)
        for reference, _ in sites.values():
            module = reference()
            if module is not None:
                CALLS.register(module)

    def _adopt(self, head: str, model: nn.Module, named: set[int]) -> None:
        self.parameter_names.add(head, model)
        named |= self._exported.adopt(head, model)
        for path, module in self._compiled.named_modules(model):
            if id(module) in named:
                continue
            named.add(id(module))
            named |= self._exported.adopt(f"{head}.{path}", module)
            exported = exported_class(module)
            stem = f"{head}.{path}.{exported or class_name(module)}"
            earlier = self._sites.get(module)
            if earlier is None or earlier.stem != stem:
                site = self._sites.register(stem, module, _own_parameters)
                if exported is not None:
                    site.training = _mode_of_export
                else:
                    self._direct.cover(module)
                CALLS.register(module)

    def stem(self, module: nn.Module) -> str | None:
        """Return the name of an adopted module without phase and number, ``Module.fc1.Linear``."""
        site = self._sites.get(module)
        return None if site is None else site.stem

    def site_of(self, stem: str) -> NamedModule | None:
        """Return what numbers the calls of the modules named ``stem``."""
        return self._sites.site_of(stem)

    def reset(self) -> None:
        CALLS.reset()
        shown = [site for _, site in self._sites.items()]
        with self._with_hidden():
            self._sites.reset()
        self._focused = {stem: site for stem, site in self._focused.items() if site in shown}
        for site in self._focused.values():
            site.reset()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        patches = Patches()  # one function for all starts: compiled code depends on which it is
        observed = module_call_in_place(nn.Module, self._observed, self._observed_call, self._current)
        patches.plan(*place_of(nn.Module, "__call__"), observed)
        end = Undo(functools.partial(setattr, CALLS, "target", None))
        note_applied(end)
        try:
            CALLS.target = self._target
            with (
                patches.in_force(),
                self._exported.attach(),
                reporting_versions(self._thread),
                RECOMPILE_GUARD.in_force(self._direct),
            ):
                yield
        finally:
            end.undo()
            self._compiled.warn_if_unseen(self._sites.get)
            tell_of_graph_breaks()

    def shared_parameters(self) -> list[list[str]]:
        return self.parameter_names.shared()

    def named_parameters(self) -> list[tuple[str, Any]]:
        once = {id(parameter): (name, parameter) for name, parameter in reversed([*self.parameter_names.all()])}
        return list(reversed(once.values()))

    def gradients(self, parameters: Sequence[Any], used_now: bool) -> list[Any] | None:
        if used_now:
            return [parameter.grad for parameter in parameters]
        with self.gradient_threads.sole() as readable:
            return [parameter.grad for parameter in parameters] if readable else None

    def attach_gradients(self) -> Callable[[], None]:
        entries = self._sites.items()
        modules = (*self.parameter_names.models(), *(reference() for reference, _ in entries))
        present = [module for module in modules if module is not None]
        shard_of, flats = find_shards(present), flat_parameters(present)
        inside_flat = {id(parameter) for flat in flats for parameter in flat.parameters}
        own = {  # each once: several calls in an exported program are of one module
            (site.stem, id(parameter)): (parameter, site, key)
            for _, site in entries
            for key, parameter in site.parameters()
            if _may_train(parameter) and id(parameter) not in inside_flat
        }
        uses = Counter(identity for _, identity in own)
        hooks: list[Any] = []
        self._hooks = hooks  # those of a list that is no longer this one report nothing

        def detach() -> None:
            if self._hooks is hooks:
                self._hooks = []
            for hook in hooks:
                hook.remove()

        try:
            for parameter, site, key in own.values():
                more = site.repeats if uses[id(parameter)] == 1 else _always
                hooks.append(self._hook_gradient(shard_of.get(id(parameter), parameter), site, key, hooks, more))
            for flat in flats:
                report = functools.partial(self._report_parts, hooks, flat)
                hooks.append(flat.tensor.register_hook(TensorHook(self._thread, report)))
        except BaseException:
            detach()
            for parameter, _, _ in own.values():
                self._remove_hooks(shard_of.get(id(parameter), parameter))
            raise
        return detach

    def _remove_hooks(self, parameter: torch.Tensor) -> None:
        """Remove the hooks of this object, also one that an interrupt has kept from the list of hooks."""
        for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            hooks = getattr(parameter, kind, None) or {}
            for number, hook in list(hooks.items()):
                if isinstance(hook, TensorHook) or getattr(hook, "func", None) == self.passes.arrive:
                    del hooks[number]

    def _hook_gradient(
        self, parameter: nn.Parameter, site: NamedModule, key: str, hooks: list[Any], more: Callable[[], bool]
    ) -> Any:
        report = functools.partial(self._report_gradient, hooks, site, key)
        if not is_sharded(parameter):
            at_once = TensorHook(self._thread, report)
            arrive = functools.partial(self.passes.arrive, (site.stem, key), more, at_once)
            # a parameter without a shape refuses, though it will have a gradient
            with WithoutSubclass(), _trainable(parameter):
                return parameter.register_hook(arrive)
        # the gradient of a shard never passes a node of its own
        accumulated: Any = TensorHook(self._thread, lambda shard: report(shard.grad))
        return parameter.register_post_accumulate_grad_hook(accumulated)

    def _observed_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that stands for ``nn.Module.__call__``; Dynamo skips its frame."""
        find_site = self._site_lookup(original)
        call = wrap_module_call(original, find_site, self._current, self._thread, Tracing(is_traced, _traced_call))
        skip_in_dynamo(call)
        return call

    def _direct_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that stands for ``forward`` of a class of modules; Dynamo skips its frame."""
        observed = wrap_module_call(original, self._site_lookup(None), self._current, self._thread)
        call = wrap_direct_call(original, observed, self._direct, self._thread, is_traced)
        skip_in_dynamo(call)
        return call

    def _site_lookup(self, original: Callable[..., Any] | None) -> Callable[[nn.Module], NamedModule | None]:
        """Return a function that gives the site of a module whose call is recorded, and None for another call.

        With ``original``, calls count only while it is the call of modules that is replaced.
        """
        sites, thread, compiled, current = self._sites.by_id, self._thread, self._compiled, self._current

        def find_site(module: nn.Module) -> NamedModule | None:
            if original is not None and current.module_call is not original:
                return None
            entry = sites.get(id(module))
            if id(module) in compiled.present:
                compiled.called.add(id(module))
            if entry is None or entry[0]() is not module or thread.compiling or _jit_tracing() is not None:
                return None
            return entry[1]

        skip_in_dynamo(find_site, inside=True)
        return find_site

    def _report_parts(self, hooks: list[Any], flat: FlatParameter, gradient: torch.Tensor) -> None:
        for (module, key), part in flat.split(gradient):
            site = self._sites.get(module)
            if site is not None:
                self._report_gradient(hooks, site, key, part)

    def _report_gradient(self, hooks: list[Any], site: NamedModule, key: str, gradient: Any) -> None:
        observer = self._current.late_observer
        if observer is not None and hooks is self._hooks:
            observer.parameter_gradient(site, key, gradient)


def _always() -> bool:
    """Return True: a tied parameter may get a gradient from each of its modules."""
    return True


def _mode_of_export() -> None:
    """Return None: an exported program was made in one mode, which its flag does not say."""


def _traced_call(original: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the call that Dynamo traces: with operators that report it, unless the program is exported."""
    if reported():
        return observe(original, module, args, kwargs)
    return original(module, *args, **kwargs)


def _may_train(parameter: nn.Parameter) -> bool:
    """Return whether a parameter has a gradient, now or when the program goes on to train it in this step. Of a class
    of its own, nobody knows whether it can be trained."""
    if not parameter.is_leaf or parameter.requires_grad:
        return parameter.is_leaf
    numbers = parameter.is_floating_point() or parameter.is_complex()
    return numbers and type(parameter) in PLAIN and not parameter.is_inference()


@contextlib.contextmanager
def _trainable(parameter: nn.Parameter) -> Iterator[None]:
    """Let a frozen parameter take a hook, which stays when the program trains it later (adversarial networks)."""
    if parameter.requires_grad:
        yield
        return
    parameter.requires_grad_(True)
    try:
        yield
    finally:
        parameter.requires_grad_(False)


def _own_parameters(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(module.named_parameters(recurse=False))
