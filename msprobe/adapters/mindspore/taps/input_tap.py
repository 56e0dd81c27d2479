"""Replace the inputs of cells by recorded ones: ``__call__`` of cells is replaced again, outside of what records it.

A replaced tensor has no autograd history, so the backward pass ends at it. The files of bfloat16 tensors hold float32,
which becomes bfloat16 again where the live tensor is bfloat16.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore
import numpy as np

from msprobe.core.backend.protocols import InputSource
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.session.input_override import FedInputs


class MindSporeInputTap:
    """Implements ``InputTap``.

    Args:
        kind: the class whose calls are replaced, ``nn.Cell`` or the modules of a torch-shaped namespace.
        stem: returns the name of a module without phase and number; None for a module that was not adopted.
        thread: the state of the present thread.
    """

    def __init__(self, kind: Any, stem: Callable[[Any], str | None], thread: ThreadState) -> None:
        self._kind = kind
        self._stem = stem
        self._thread = thread
        self._inputs = FedInputs(lambda kind: issubclass(kind, mindspore.Tensor), ".npy", _load_tensor, _as_it_is)

    @contextlib.contextmanager
    def attach(self, source: InputSource) -> Iterator[None]:
        patches = Patches()
        patches.plan(self._kind, "__call__", self._with_recorded_inputs(self._kind.__call__, source))
        with patches.in_force():
            yield

    def _with_recorded_inputs(self, original: Callable[..., Any], source: InputSource) -> Callable[..., Any]:
        stem_of, thread, inputs = self._stem, self._thread, self._inputs

        @functools.wraps(original)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            stem = stem_of(module)
            name = None if stem is None else source.next_call(stem)
            if name is not None:
                with thread.quiet():
                    args, kwargs = inputs.arguments(name, args, kwargs, source)
            return original(module, *args, **kwargs)

        return call


def _load_tensor(path: Path, live: mindspore.Tensor) -> mindspore.Tensor:
    array = np.load(path, allow_pickle=False)
    widened = live.dtype == mindspore.bfloat16 and array.dtype == np.float32
    return mindspore.Tensor(array, mindspore.bfloat16 if widened else None)


def _as_it_is(tensor: mindspore.Tensor, _live: mindspore.Tensor, _through: bool) -> mindspore.Tensor:
    """Return the recorded tensor: what MindSpore differentiates is decided where its function is made."""
    return tensor
