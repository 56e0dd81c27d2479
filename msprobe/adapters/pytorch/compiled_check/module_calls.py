"""Hooks on modules for the check of compiled code: calls checked at once, or kept for a second pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_models import inner_model
from msprobe.adapters.pytorch.compiled_check.eager_run import EagerCall, WrongCall, gradients, tensors_of
from msprobe.adapters.pytorch.compiled_check.result import ModuleDiff
from msprobe.adapters.pytorch.compiled_check.tensor_diff import TensorDiff, compare_tensors, not_compared
from msprobe.adapters.pytorch.replay.program_state import ProgramState
from msprobe.adapters.pytorch.taps.gradient_tap import TorchGradientTap
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger

_KEPT = 4  # calls that are kept with copies of their inputs and parameters


class ModuleChecks:
    """Runs the originals of compiled modules once more after each of their calls.

    Attributes:
        diffs: what was found, in the order of the calls.
    """

    def __init__(self) -> None:
        self.errors = ErrorLog(None)
        self.diffs: list[ModuleDiff] = []
        self._gradients = TorchGradientTap(ThreadState())
        self._handles: list[Any] = []
        self._open: dict[int, list[tuple[EagerCall, Any]]] = {}
        self._wrong = WrongCalls()

    def attach(self, modules: Mapping[str, nn.Module]) -> None:
        """Hook these compiled modules, by their names."""
        for name, module in modules.items():
            self._handles.append(module.register_forward_pre_hook(self._begin, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._ending(name), with_kwargs=True))

    def remove(self) -> None:
        """Take the hooks away."""
        while self._handles:
            self._handles.pop().remove()

    @never_raises
    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        original = inner_model(module)
        call = EagerCall.of(original, args, kwargs)
        parameters = tuple(one for one in original.parameters() if one.requires_grad)
        prepared = self._gradients.prepare((*args, parameters), kwargs)
        self._open.setdefault(id(module), []).append((call, prepared))

    def _ending(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            self._end(name, module, result)

        return hook

    @never_raises
    def _end(self, name: str, module: nn.Module, result: Any) -> None:
        call, prepared = self._open[id(module)].pop()
        names = [one for one, value in call.module.named_parameters() if value.requires_grad]
        diff = ModuleDiff(name, note="not compared, see the log", parameters=tuple(names), is_compared=False)
        self.diffs.append(diff)
        exact = self._judge(diff, call, result)
        diff.is_compared = True
        self._wrong.keep(diff, WrongCall(module, call))
        if prepared is not None and exact is not None:
            receiver = CallGradients(diff, WrongCall(module, call), exact, self._wrong)
            self._gradients.attach(prepared, result, receiver)

    def _judge(self, diff: ModuleDiff, call: EagerCall, result: Any) -> Results | None:
        """Compare the results of a call; return those of eager mode, or None where it cannot run again."""
        after = ProgramState.now()
        try:
            eager = tensors_of(call.run())
        except Exception as error:  # noqa: BLE001 - whatever a model raises
            let_through(error)
            diff.note = f"the eager module cannot run again: {error_text(error)}"
            diff.fwd_output = [not_compared(one, diff.note) for one in tensors_of(result)]
            return None
        drawn = not after.has_same_numbers(call.before)
        diff.note = "it draws random numbers, which the compiler may draw otherwise" if drawn else ""
        exact, exact_call = _exact(call)
        diff.fwd_output = _compared(tensors_of(result), eager, exact)
        return Results(eager, exact, exact_call)


class Results(NamedTuple):
    """The results of a call in eager mode, and in float64 where the module can compute so, with that call."""

    eager: list[torch.Tensor]
    exact: list[torch.Tensor]
    exact_call: EagerCall | None


class WrongCalls:
    """Keeps the first wrong calls, which hold copies of their inputs, so that their nodes can be looked for."""

    def __init__(self) -> None:
        self._left = _KEPT

    def keep(self, diff: ModuleDiff, wrong: WrongCall) -> None:
        """Keep a call where what was compared of it is wrong."""
        if diff.passes:
            return
        if diff.call is not None:
            diff.call.given = wrong.given
        elif self._left > 0:
            self._left -= 1
            diff.call = wrong


class CallGradients:
    """Compares the gradients of one call when its backward pass is done (implements ``GradientReceiver``)."""

    def __init__(self, diff: ModuleDiff, wrong: WrongCall, results: Results, kept: WrongCalls) -> None:
        self.errors = ErrorLog(None)
        self._diff = diff
        self._wrong = wrong
        self._kept = kept
        self._results: Results | None = results
        self._outputs: list[Any] = []
        self._inputs: dict[int, Any] = {}

    def expect(self, outputs: int) -> None:
        """Expect gradients of this many outputs."""
        self._outputs = [None] * outputs

    @never_raises
    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """Take all gradients at once."""
        self._outputs = list(grad_outputs)
        self.grad_inputs(grad_inputs)

    def grad_output(self, position: int, gradient: Any) -> None:
        """Take the gradient of an output."""
        self._outputs[position] = None if gradient is None else gradient.detach().clone()

    def grad_input(self, slot: int, gradient: Any) -> None:
        """Take the gradient of an input or parameter."""
        self._inputs[slot] = gradient.detach().clone()

    @never_raises
    def grad_inputs(self, found: Mapping[int, Any]) -> None:
        """Compare all gradients of the call."""
        compiled = {**self._inputs, **found}
        results, self._results = self._results, None
        given, self._inputs = self._outputs, {}
        if results is None:
            return
        eager = [one for one in results.eager if one.requires_grad]
        with torch.enable_grad():
            inputs, parameters = gradients(self._wrong.call, eager, given)
            wide = [one for one in results.exact if one.requires_grad]
            exact = ([], []) if results.exact_call is None else gradients(results.exact_call, wide, given)
        count = len(inputs)
        ordered = [compiled.get(slot) for slot in range(count + len(parameters))]
        self._diff.grad_input = _compared(ordered[:count], inputs, exact[0])
        self._diff.grad_param = _compared(ordered[count:], parameters, exact[1])
        self._wrong.given = given
        self._kept.keep(self._diff, self._wrong)


class RecordedCalls:
    """Keeps inputs, outputs and gradients of outputs of each call, for a comparison of two passes.

    Attributes:
        calls: by name and number of the call what was seen of it.
    """

    def __init__(self) -> None:
        self.errors = ErrorLog(None)
        self.calls: dict[str, dict[str, list[Any]]] = {}

    @contextlib.contextmanager
    def attached(self, modules: Mapping[str, nn.Module]) -> Iterator[None]:
        """Record the calls of these modules in a block."""
        handles = [one.register_forward_hook(self._hook(name), with_kwargs=True) for name, one in modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            self._note(name, (args, kwargs), result)

        return hook

    @never_raises
    def _note(self, name: str, given: Any, result: Any) -> None:
        number = sum(1 for key in self.calls if key == name or key.startswith(f"{name}#"))
        outputs = tensors_of(result)
        gradients_of_outputs: list[Any] = [None] * len(outputs)
        self.calls[f"{name}#{number}" if number else name] = {
            "fwd_input": [one.detach().clone() for one in tensors_of(given)],
            "fwd_output": [one.detach().clone() for one in outputs],
            "grad_output": gradients_of_outputs,
        }
        for index, one in enumerate(outputs):
            if one.requires_grad:
                one.register_hook(_keeper(gradients_of_outputs, index))


def _keeper(place: list[Any], index: int) -> Any:
    def keep(gradient: torch.Tensor) -> None:
        place[index] = gradient.detach().clone()

    return keep


def _exact(call: EagerCall) -> tuple[list[torch.Tensor], EagerCall | None]:
    """Return the results of a call in float64, and that call; nothing where the module cannot compute so."""
    wide = call.in_float64()
    try:
        return tensors_of(wide.run()), wide
    except Exception as error:  # noqa: BLE001 - a module may insist on its types
        let_through(error)
        logger.debug("compiled check: no float64 result: %s", error_text(error))
        return [], None


def _compared(compiled: Sequence[Any], eager: Sequence[Any], exact: Sequence[Any]) -> list[TensorDiff | None]:
    longest = max(len(compiled), len(eager))
    numbers = (one for one in exact if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel())
    beside = max((float(one.detach().abs().max()) for one in numbers), default=0.0)
    return [compare_tensors(_at(compiled, i), _at(eager, i), _at(exact, i), beside) for i in range(longest)]


def _at(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else None
