"""Calls of functions inside code of ``torch.compile``: reported by operators in the graph, as calls of modules are.

Only graph mode (``AclGraphDumper``) asks for it: the operators keep a compiler from fusing what lies on both sides of
them. Methods and operators of tensors are not seen, because Dynamo does not look them up where they are replaced.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS, BeginFunction, Target
from msprobe.adapters.pytorch.compile.recompilation import is_traced, reporting_versions, traced_function
from msprobe.adapters.pytorch.taps.api_tap import TorchApiTap
from msprobe.adapters.pytorch.taps.gradient_tap import TorchGradientTap
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.patching import Undo, note_applied
from msprobe.core.capture.thread_state import Quiet
from msprobe.core.capture.wrap import wrap
from msprobe.core.log import first_time, logger


class CompiledApiTap(TorchApiTap):
    """Implements ``ApiTap`` inside compiled code too.

    Args:
        gradients: the gradient tap.
        arguments: those of ``TorchApiTap``.
    """

    def __init__(self, gradients: TorchGradientTap, *arguments: Any) -> None:
        self._begins: dict[int, BeginFunction] = {}
        super().__init__(*arguments)
        self._target = Target(self._current, gradients, lambda module: None, functools.partial(Quiet, self._thread))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        end = Undo(self._detach)
        note_applied(end)
        try:
            CALLS.target = self._target  # the tap of modules, which is attached later, reports functions as well
            CALLS.functions.update(self._begins)
            CALLS.differentiable.update(self._begins)
            if first_time("functions in compiled code"):
                logger.info(
                    "inside of compiled code functions are recorded; methods and operators of tensors (x.sum(), x + y) "
                    "are not: level L0 shows what the modules around them return"
                )
            with super().attach(), reporting_versions(self._thread):
                yield
        finally:
            end.undo()

    def reset(self) -> None:
        super().reset()
        CALLS.reset()

    def _detach(self) -> None:
        CALLS.target = None
        for number in self._begins:
            CALLS.functions.pop(number, None)
            CALLS.differentiable.discard(number)

    def _observed(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        def begin(observer: Any, args: Any, kwargs: Any) -> Any:
            record = observer.api_begin(site, tuple(args), kwargs)
            return None if record is None else functools.partial(observer.end, record)

        number = CALLS.function_number(site.stem)
        self._begins[number] = begin
        run = original if self._inside is None else self._inside(site, original)
        read = traced_function(original, number, in_place=False)
        return wrap(run, site, self._current, self._thread, is_traced, read)
