"""Tensors whose communication is under way when a call that has them is recorded (``AsyncCollectiveTensor``).

Functional collectives, and so the layers of ``parallelize_module``, return such a tensor at once; its values are there
when the program first uses them and waits. Waiting earlier would change the schedule of the program, and could block it
for ever. So a record is completed by the wait of the program itself (``TensorsInFlight``). A tensor for which nobody
waits keeps a record without values.

``wait_tensor`` of torch is replaced only as long as such a tensor is outstanding.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from msprobe.adapters.pytorch.tensors.memory import PLAIN, WithoutAutograd, storage
from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger

_COLLECTIVES = "torch.distributed._functional_collectives"
_WAIT = "wait_tensor"
_empty = torch._C._VariableFunctions.empty

Complete = Callable[[torch.Tensor], None]
"""Called with the values, a plain detached tensor."""


class TensorsInFlight:
    """Implements ``Arrivals``; it holds no tensor alive.

    Args:
        thread: is made busy while a record is completed.
        traced: returns whether a compiler reads the code instead of running it.

    Attributes:
        put: the number of tensors added so far.
    """

    def __init__(self, thread: ThreadState, traced: Callable[[], bool]) -> None:
        self.put = 0
        self._thread = thread
        self._traced = traced
        self._waiting: dict[int, tuple[StorageWeakRef, list[tuple[Any, Complete]]]] = {}
        self._patches = Patches()
        self._planned = False

    @property
    def outstanding(self) -> bool:
        """Whether somebody may still wait for a tensor that was added; any thread may ask."""
        return any(not held.expired() for held, _ in list(self._waiting.values()))

    def add(self, tensor: Any, complete: Complete) -> bool:
        """Call ``complete`` when the program has waited for ``tensor``; return False for one that is not under way."""
        local = getattr(tensor, "_local_tensor", tensor)
        module = sys.modules.get(_COLLECTIVES)
        if type(local).__name__ != "AsyncCollectiveTensor" or module is None or local.completed:
            return False
        values = local.elem
        if type(values) not in PLAIN:
            return False
        part = values.dtype, values.storage_offset(), tuple(values.shape), values.stride()
        held = storage(values)
        for key in [key for key, (other, _) in list(self._waiting.items()) if other.expired()]:
            self._waiting.pop(key, None)
        entry = self._waiting.get(held._cdata)
        if entry is None:
            entry = self._waiting[held._cdata] = (StorageWeakRef(held), [])
        entry[1].append((part, complete))
        self.put += 1
        if not self._planned:
            self._planned = True
            self._patches.plan(module, _WAIT, self._observed(vars(module)[_WAIT]))
        self._patches.apply()
        return True

    def clear(self) -> None:
        """Forget all of them: a new step begins."""
        self._waiting.clear()
        self._undo_if_idle()

    def _undo_if_idle(self) -> None:
        if not self._waiting:
            self._patches.undo()

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wait_tensor(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tensor, *args, **kwargs)
            if not self._traced() and type(tensor) in PLAIN:
                self._arrived(tensor)
            return result

        return wait_tensor

    def _arrived(self, tensor: torch.Tensor) -> None:
        """Complete the records of the tensors in the memory of ``tensor``, for which the program has waited."""
        key = storage(tensor)._cdata
        entry = self._waiting.get(key)
        if entry is None or entry[0].expired():
            return
        busy = self._thread.busy
        try:
            self._thread.busy = True
            with outside_modes(), WithoutAutograd():
                for (dtype, *place), complete in entry[1]:
                    complete(_empty(0, dtype=dtype, device=tensor.device).set_(storage(tensor), *place))
        except Exception as error:  # noqa: BLE001  (the program must not notice)
            let_through(error)
            if first_time(("arrival", type(error))):
                logger.error("the values of a tensor could not be recorded when they arrived: %s", error_text(error))
        finally:
            self._thread.busy = busy
            self._waiting.pop(key, None)  # now only: until then a record of it is not complete
            self._undo_if_idle()
