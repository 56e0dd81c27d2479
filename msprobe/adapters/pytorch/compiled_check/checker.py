"""``PrecisionChecker``: compares compiled modules with their eager originals.

    checker = PrecisionChecker(backend="inductor")
    model = checker.install(checker.wrap_by_policy(model, (Block,)))
    loss = model(x).mean()
    loss.backward()
    checker.report(checker.collect(loss), csv_path="compiled.csv")

In one pass each wrapped module runs once more, eagerly, on the inputs and the output gradients that its compiled form
had: what is different arises in this module. In two passes (``compare``) the whole model runs in both forms.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_models import is_compiled
from msprobe.adapters.pytorch.compiled_check.backends import ChosenBackend, backend_of
from msprobe.adapters.pytorch.compiled_check.module_calls import ModuleChecks, RecordedCalls
from msprobe.adapters.pytorch.compiled_check.node_search import NodeSearch
from msprobe.adapters.pytorch.compiled_check.reproduction import write_reproduction
from msprobe.adapters.pytorch.compiled_check.result import CompareResult, ModuleDiff
from msprobe.adapters.pytorch.compiled_check.tensor_diff import compare_tensors
from msprobe.adapters.pytorch.compiled_check.wrong_node import WrongNode
from msprobe.adapters.pytorch.replay.program_state import ProgramState
from msprobe.adapters.pytorch.taps.parameter_names import plain_name, without_data_parallel
from msprobe.core.errors import MsprobeException, argument_text, error_text
from msprobe.core.interruption import ignored, let_through
from msprobe.core.log import logger

_IGNORED = "_msprobe_not_compiled"


class PrecisionChecker:
    """Checks compiled modules.

    Args:
        backend: the back end of ``torch.compile``.
        threshold: accepted; the verdict takes type and size of the tensors into account.
        dump_graphs: write the code of each graph to ``graph_dir``.
        graph_dir: where that is.
        cast_dtype: cast the inputs and the parameters of wrapped modules to this type.
        capture_input: compare inputs too (two passes).
        single_pass: ``install`` and ``collect``; else ``compare``.

    Raises:
        MsprobeException: an argument is wrong.
    """

    def __init__(  # noqa: PLR0913 - the published arguments
        self,
        backend: str = "aot_eager",
        threshold: float = 1e-4,
        dump_graphs: bool = False,
        graph_dir: str = "./graph_dump",
        cast_dtype: torch.dtype | None = None,
        capture_input: bool = True,
        single_pass: bool = True,
    ) -> None:
        if backend not in torch.compiler.list_backends(exclude_tags=()):
            raise MsprobeException(0, f"PrecisionChecker: torch has no back end {argument_text(backend)}")
        self._backend = ChosenBackend(backend, Path(graph_dir) if dump_graphs else None)
        self._cast = cast_dtype
        self._capture_input = capture_input
        self._checks: ModuleChecks | None = None
        self._loss = float("nan")
        self._names: dict[int, str] = {}

    # ---------------------------------------------------------------- which modules are compiled

    def wrap(self, module: nn.Module, name: str | None = None) -> nn.Module:
        """Return the compiled form of a module; one that is ignored, or compiled already, is returned as it is."""
        if getattr(module, _IGNORED, False) or is_compiled(module):
            return module
        inner = module if self._cast is None else _Cast(module, self._cast)
        compiled: nn.Module = torch.compile(inner, backend=self._backend)
        if name is not None:
            self._names[id(compiled)] = name
        return compiled

    def wrap_by_policy(self, model: nn.Module, module_types: tuple[type[nn.Module], ...]) -> nn.Module:
        """Compile the outermost modules of these classes in their places, and return the model."""
        return self._replace(model, lambda module, depth: isinstance(module, module_types))

    def wrap_all_children(self, model: nn.Module, depth: int = 1) -> nn.Module:
        """Compile the modules at a depth below the model in their places, and those without children above it."""
        return self._replace(model, lambda module, level: level == depth or not any(module.children()))

    def ignore(self, module: nn.Module) -> nn.Module:
        """Leave a module, and what is inside of it, as it is."""
        setattr(module, _IGNORED, True)
        return module

    def ignore_by_policy(self, model: nn.Module, module_types: tuple[type[nn.Module], ...]) -> nn.Module:
        """Leave the modules of these classes as they are, and return the model."""
        for module in model.modules():
            if isinstance(module, module_types):
                self.ignore(module)
        return model

    def _replace(self, model: nn.Module, wanted: Callable[[nn.Module, int], bool], depth: int = 1) -> nn.Module:
        for name, child in list(model.named_children()):
            if getattr(child, _IGNORED, False) or is_compiled(child):
                continue
            if wanted(child, depth):
                setattr(model, name, self.wrap(child))
            else:
                self._replace(child, wanted, depth + 1)
        return model

    # ---------------------------------------------------------------- one pass

    def install(self, model: nn.Module) -> nn.Module:
        """Check the compiled modules of a model from now on, until ``collect``; return the model."""
        if self._checks is not None:
            self._checks.remove()
        found = _compiled_modules(without_data_parallel(model))
        compiled = {self._names.get(id(one), _plain(name)): one for name, one in found}
        if not compiled:
            logger.warning("PrecisionChecker: the model has no compiled module; call wrap_by_policy() before install()")
        self._checks = ModuleChecks()
        self._checks.attach(compiled)
        return model

    def record_loss(self, loss: torch.Tensor) -> None:
        """Note the loss of this pass."""
        self._loss = float(loss.detach())

    def collect(self, loss: torch.Tensor | None = None) -> CompareResult:
        """End the check, and return what it found.

        Raises:
            MsprobeException: ``install`` was not called.
        """
        if self._checks is None:
            raise MsprobeException(3, "PrecisionChecker.collect: call install(model) before the forward pass")
        if loss is not None:
            self.record_loss(loss)
        checks, self._checks = self._checks, None
        checks.remove()
        return CompareResult(loss_compiled=self._loss, diffs=checks.diffs, cast_dtype=self._cast)

    # ---------------------------------------------------------------- two passes

    def compare(self, fn: Callable[[nn.Module], torch.Tensor], model: nn.Module) -> CompareResult:
        """Run ``fn`` on the eager and on the compiled model, each with its backward pass, and compare both.

        The model stays as it is; a model without compiled modules is compiled as a whole.
        """
        eager = _uncompiled(copy.deepcopy(model))
        compiled = copy.deepcopy(model)
        if not any(True for _ in _compiled_modules(compiled)):
            compiled = self.wrap(compiled)
        watched = {_plain(name): one for name, one in _outside_of_compiled(compiled)}
        originals = {_plain(path): one for path, one in eager.named_modules()}
        before = ProgramState.now()
        loss_eager, one = _run(fn, eager, {name: originals[name] for name in watched})
        before.restore()  # both draw the same random numbers
        loss_compiled, other = _run(fn, compiled, watched)
        diffs = [self._module_diff(name, one, other) for name in other.calls if name in one.calls]
        diffs.append(_parameter_diff(eager, compiled))
        return CompareResult(loss_eager, loss_compiled, diffs, self._cast)

    def _module_diff(self, name: str, eager: RecordedCalls, compiled: RecordedCalls) -> ModuleDiff:
        one, other = eager.calls[name], compiled.calls[name]
        diff = ModuleDiff(name)
        kinds = ("fwd_input", "fwd_output") if self._capture_input else ("fwd_output",)
        for kind in (*kinds, "grad_output"):
            pairs = itertools.zip_longest(other[kind], one[kind])
            setattr(diff, kind, [compare_tensors(target, golden) for target, golden in pairs])
        return diff

    # ---------------------------------------------------------------- the first wrong node

    def locate(self, result: CompareResult) -> WrongNode | None:
        """Return the first wrong node of the first wrong module of one pass, and note it in the result.

        The graphs of that call are compiled once more, in parts; this takes some times as long as the compilation.
        None where nothing is wrong or no node is found: ``result.node_note`` says why.
        """
        if result.wrong_node is None and not result.all_pass and result.compared:
            result.node_note = self._search(result)
        return result.wrong_node

    def _search(self, result: CompareResult) -> str:
        """Look for the first wrong node; return why there is none."""
        wrong = next((one for one in result.diffs if one.call is not None and not one.passes), None)
        if wrong is None or wrong.call is None:
            return "only a check in one pass (install and collect) keeps the calls that it takes"
        try:
            search = NodeSearch(backend_of(wrong.call.compiled))
            result.wrong_node = search.search(wrong.name, wrong.call.call, wrong.call.given)
        except Exception as error:  # noqa: BLE001 - the program goes on, whatever a compiler or a module raises
            let_through(error)
            return f"{wrong.name} cannot be traced again: {error_text(error)}"
        if result.wrong_node is not None:
            return ""
        return f"the graphs of {wrong.name} are right when they are compiled by themselves"

    def report(self, result: CompareResult, csv_path: str | None = None, reproduce: str | None = None) -> None:
        """Log the result with the first wrong node, and write it as a csv file where a path is given.

        Args:
            result: what ``collect`` or ``compare`` returned.
            csv_path: the csv file.
            reproduce: a Python script to write that shows the wrong node in a process of its own; its tensors lie
                beside it in a file ``.pt``.

        Raises:
            OSError: a file cannot be written.
        """
        node = self.locate(result)
        for line in result.lines:
            logger.info("%s", line)
        if csv_path is not None:
            result.write(Path(csv_path))
        if reproduce is not None and node is not None:
            problem = write_reproduction(node, Path(reproduce))
            if problem:
                logger.warning("PrecisionChecker: %s is not written: %s", reproduce, problem)
            else:
                logger.info("PrecisionChecker: `python %s` shows the node alone", reproduce)


def _run(
    fn: Callable[[nn.Module], torch.Tensor], model: nn.Module, watched: dict[str, nn.Module]
) -> tuple[float, RecordedCalls]:
    """Run a function on a model with the backward pass; return the loss, and the calls of the watched modules."""
    calls = RecordedCalls()
    with calls.attached(watched):
        loss = fn(model)
        if isinstance(loss, torch.Tensor) and loss.requires_grad:
            loss.sum().backward()
    return float(loss.detach().sum()) if isinstance(loss, torch.Tensor) else float("nan"), calls


class _Cast(nn.Module):
    """A module in another floating type: its inputs are cast, its results are cast back."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self._msprobe_cast = module.to(dtype)
        self._dtype = dtype

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given = _first_float((args, kwargs))
        args, kwargs = _cast_floats((args, kwargs), self._dtype)
        return _cast_floats(self._msprobe_cast(*args, **kwargs), given or self._dtype)


def _first_float(value: Any) -> torch.dtype | None:
    leaves = torch.utils._pytree.tree_leaves(value)
    return next((one.dtype for one in leaves if isinstance(one, torch.Tensor) and one.is_floating_point()), None)


def _cast_floats(value: Any, dtype: torch.dtype) -> Any:
    def cast(one: Any) -> Any:
        return one.to(dtype) if isinstance(one, torch.Tensor) and one.is_floating_point() else one

    return torch.utils._pytree.tree_map(cast, value)


def _compiled_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if is_compiled(module):
            yield name, module


def _outside_of_compiled(model: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield compiled modules, and those without children that are not inside of one."""
    if is_compiled(model):
        yield prefix, model
        return
    children = list(model.named_children())
    if not children and prefix:
        yield prefix, model
    for name, child in children:
        yield from _outside_of_compiled(child, f"{prefix}.{name}" if prefix else name)


def _uncompiled(model: nn.Module) -> nn.Module:
    """Return a model whose compiled modules are their originals again."""
    if is_compiled(model):
        return _uncompiled(model._orig_mod)
    for name, child in list(model.named_children()):
        with ignored(TypeError):
            setattr(model, name, _uncompiled(child))
    return model


def _parameter_diff(eager: nn.Module, compiled: nn.Module) -> ModuleDiff:
    one = {_plain(name): parameter.grad for name, parameter in eager.named_parameters()}
    other = {_plain(name): parameter.grad for name, parameter in compiled.named_parameters()}
    found = [compare_tensors(other[name], one.get(name)) for name in other]
    return ModuleDiff("parameters", grad_param=found, parameters=tuple(other))


def _plain(name: str) -> str:
    """Return the path of a module or parameter without the modules that wrappers add; ``model`` for the outermost."""
    return plain_name(f"{name}.").replace("_msprobe_cast.", "").removesuffix(".") or "model"
