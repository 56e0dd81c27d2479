"""What a set-up check sees of a MindSpore program: its build and switches, inputs, weights and random calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import mindspore
import numpy as np
from mindspore import mint, ops
from mindspore.communication import get_group_size

from msprobe.adapters.mindspore.runtime import MindSporeRuntime
from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps, host
from msprobe.adapters.mindspore.versions import version_text
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.random_sources import RandomSource, host_sources
from msprobe.core.interruption import ignored, let_through
from msprobe.core.tensors.projection import KEY
from msprobe.setup_check.collection.content_hash import content_hash, element_sum
from msprobe.setup_check.collection.hyperparameters import plain_setting
from msprobe.setup_check.collection.watch import OnForward, OnRandom
from msprobe.setup_check.document import TensorFacts

_DRAWING = (
    "rand randn randint rand_like randn_like randint_like randperm normal uniform standard_normal standard_laplace "
    "laplace gamma poisson random_gamma random_poisson random_categorical bernoulli multinomial shuffle dropout "
    "dropout1d dropout2d dropout3d alpha_dropout"
)
_SWITCHES = (
    "mode",
    "device_target",
    "deterministic",
    "jit_config",
    "jit_level",
    "pynative_synchronize",
    "runtime_num_threads",
    "memory_optimize_level",
    "enable_graph_kernel",
    "graph_kernel_flags",
    "max_call_depth",
    "ascend_config",
    "gpu_config",
)
_DEVICE_OF = {"ascend_config": "Ascend", "gpu_config": "GPU"}
_OWNERS = (("ops", ops), ("mint", mint), ("mint.nn.functional", mint.nn.functional))
_LIBRARIES = {"python_random": "random", "numpy_random": "np.random"}


def make_watch() -> MindSporeSetupWatch:
    """Return the watch of this framework."""
    return MindSporeSetupWatch()


class MindSporeSetupWatch:
    """Implements ``SetupWatch`` for the dynamic graph of MindSpore."""

    def __init__(self) -> None:
        self._ops = MindSporeTensorOps(precision="high")
        self._runtime = MindSporeRuntime()

    def rank(self) -> int:
        return self._runtime.rank() or 0

    def facts(self) -> dict[str, Any]:
        return {"version": version_text(), "seed": mindspore.get_seed(), "world size": _world_size(), **_context()}

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, mindspore.Tensor)

    def describe(self, tensor: Any) -> TensorFacts:
        node = self._ops.describe(tensor, True, projection=True)
        self._ops.settle()
        content, elements = _hashes(tensor)
        values = {name.lower(): _number(node.get(name)) for name in ("Max", "Min", "Mean", "Norm", KEY)}
        return TensorFacts(
            dtype=str(tensor.dtype), shape=list(tensor.shape), content=content, elements=elements, **values
        )

    def weights(self, model: Any) -> Iterator[tuple[str, Any]]:
        yield from model.parameters_and_names()

    def watch_forward(self, model: Any, on_forward: OnForward) -> Callable[[], None]:
        handle = model.register_forward_pre_hook(
            lambda _model, args, kwargs: on_forward(args, kwargs), with_kwargs=True
        )
        return lambda: handle.remove()

    def watch_random(self, on_random: OnRandom) -> Callable[[], None]:
        patches, inside = Patches(), threading.local()
        for source in (*host_sources(), *_sources()):
            patches.plan(source.owner, source.name, _noting(source, on_random, inside))
        patches.apply()
        return patches.undo


def _context() -> dict[str, Any]:
    """Return the switches of the context that change numbers; those that this version or device lacks are left out."""
    device, found = mindspore.get_context("device_target"), {}
    for name in _SWITCHES:
        if _DEVICE_OF.get(name, device) != device:  # MindSpore would print a warning
            continue
        with ignored(Exception):  # of MindSpore: not a switch of this version or device
            found[name] = plain_setting(mindspore.get_context(name))
    return found


def _world_size() -> int:
    try:
        return int(get_group_size())
    except Exception as error:  # noqa: BLE001 - of MindSpore: outside of a parallel job
        let_through(error)
        return 1


def _sources() -> Iterator[RandomSource]:
    yield RandomSource("mindspore", mindspore, "set_seed")
    for library, owner in _OWNERS:
        yield from (
            RandomSource(library, owner, name) for name in _DRAWING.split() if callable(getattr(owner, name, None))
        )


def _noting(source: RandomSource, on_random: OnRandom, inside: threading.local) -> Any:
    """Return the function of a source with a note of its outermost call."""
    original = getattr(source.owner, source.name)
    name = f"{_LIBRARIES.get(source.library, source.library)}.{source.name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(inside, "busy", False):
            return original(*args, **kwargs)
        inside.busy = True
        try:
            on_random(name)
            return original(*args, **kwargs)
        finally:
            inside.busy = False

    return call


def _hashes(tensor: Any) -> tuple[str, str]:
    array = host(tensor)
    if array is None:
        return "", ""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    width = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    return content_hash(data, str(tensor.dtype), tuple(tensor.shape)), element_sum(data, width)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
