"""``save``, ``save_grad`` and ``step`` as plain functions: one value into one ``.npy`` file, without a configuration.

    from msprobe.mindspore import save, save_grad, step

    save("./values", "hidden", h)          # ./values/step0/proc4711/hidden.0.npy
    h = save_grad("./values", "hidden", h) # ./values/step0/proc4711/hidden_grad.0.npy, when backward comes by
    step()                                 # the next values belong to step 1

For a dynamic graph; what runs inside ``ms.jit`` is compiled and cannot be reached this way.

``array_of`` and ``process_rank`` are how ``SingleSave`` (``saved_values/single_save.py``) reads tensors and the rank.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

from mindspore import Tensor

from msprobe.adapters.mindspore.runtime import MindSporeRuntime
from msprobe.adapters.mindspore.taps.tensor_hooks import register
from msprobe.adapters.mindspore.tensors.bfloat16 import widened
from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps
from msprobe.adapters.mindspore.tensors.values import dtype_name
from msprobe.adapters.mindspore.versions import can_have_gradient
from msprobe.core.capture.containers import tensors_in
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.host import require_local
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.layout import process_folder, step_folder
from msprobe.core.store.safe_files import make_folder_below


class _Files:
    """The counters of one step; writes its files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step = 0
        self._calls: dict[tuple[str, str], Any] = defaultdict(itertools.count)

    def next_step(self) -> None:
        """Begin a new step and count calls from 0 again."""
        with self._lock:
            self._step += 1
            self._calls.clear()

    def write(self, folder: str, name: str, tensors: list[Any]) -> None:
        """Write the tensors; never raise, because this runs in the middle of a training."""
        with self._lock:
            target = process_folder(step_folder(Path(folder), self._step), _runtime.rank(), os.getpid())
            number = next(self._calls[folder, name])
        try:
            make_folder_below(Path(folder), target)
            for position, tensor in enumerate(tensors):
                part = f".{position}" if len(tensors) > 1 else ""
                if not _ops.save(tensor, target / f"{name}.{number}{part}.npy") and first_time((folder, name)):
                    logger.warning("%s: a value has no data to write", name)
        except OSError as error:
            let_through(error)
            if first_time((folder, str(error))):
                logger.warning("%s cannot be written into %s: %s", name, target, error)


_files, _ops, _runtime = _Files(), MindSporeTensorOps(), MindSporeRuntime()


def save(save_dir: str, name: str, data: Any) -> None:
    """Write the tensors of ``data`` (one, or nested in containers) into ``save_dir`` now.

    Raises:
        MsprobeException: ``save_dir`` is a URL, ``name`` is no plain file name, or there is no tensor in ``data``.
    """
    _files.write(save_dir, name, _checked("save", save_dir, name, data))


def save_grad(save_dir: str, name: str, data: Any) -> Any:
    """Write the gradient of the tensor ``data`` when the backward pass computes it; return ``data`` for further use.

    Raises:
        MsprobeException: ``save_dir`` is a URL, ``name`` is no plain file name, or ``data`` is not a tensor.
    """
    _checked("save_grad", save_dir, name, data)
    if not isinstance(data, Tensor):
        raise MsprobeException(0, f"save_grad: data is a mindspore.Tensor, got {type(data).__name__}")
    hooked = can_have_gradient(data) and register(
        data, lambda gradient: _files.write(save_dir, f"{name}_grad", [gradient])
    )
    if not hooked and first_time(("save_grad", name)):
        logger.warning(
            "save_grad: no gradient flows to %s here; it is called inside the function that is differentiated", name
        )
    return data


def step() -> None:
    """Begin the next step: values saved from now on belong to it."""
    _files.next_step()


def array_of(value: Any) -> tuple[Any, str] | None:
    """Return the elements of a tensor, and its type where they were widened; None for what is no tensor."""
    if not isinstance(value, Tensor):
        return None
    if dtype_name(value.dtype) == "BFloat16":
        return widened(value), "bfloat16"
    return value.asnumpy(), ""


def process_rank() -> int | None:
    """Return the rank of this process; None without communication."""
    return _runtime.rank()


def _checked(caller: str, save_dir: str, name: Any, data: Any) -> list[Any]:
    require_local(save_dir, f"{caller}: save_dir")
    if not isinstance(name, str) or not name or name != Path(name).name or name.startswith("."):
        raise MsprobeException(0, f"{caller}: name is a plain file name, got {argument_text(name)}")
    tensors = tensors_in(data, Tensor)
    if not tensors:
        raise MsprobeException(0, f"{caller}: there is no mindspore.Tensor in data ({type(data).__name__})")
    return tensors
