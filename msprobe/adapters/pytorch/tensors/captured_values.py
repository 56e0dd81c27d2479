"""Values inside a captured graph (CUDA graphs, ACL graphs): measured by the graph itself, at each replay.

The kernels that measure a tensor are the ones of ``reductions``. During a capture they become part of the graph; what
they compute is packed into one piece of memory at the end of it, so that one small copy keeps the numbers of a replay
until they are wanted, whatever the graph computes next.

The memory stays allocated as long as the graph is known, so graphs that share a pool of memory do not overwrite it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.in_flight import TensorsInFlight
from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd, WithoutSubclass, with_memory, without_repeats
from msprobe.adapters.pytorch.tensors.reductions import DeferredStatistics, MeasuredOnDevice, Rows, measure
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.adapters.pytorch.tensors.unwritten import TorchUnwrittenMemory, captures_graph
from msprobe.core.interruption import let_through
from msprobe.core.tensors.statistics import STATISTIC_NAMES


class CapturedTensorOps(TorchTensorOps):
    """Implements ``CaptureOps`` for PyTorch.

    Args:
        eager: measures outside of captures; it fetches the numbers of replays together with its own.
        precision, unwritten, arrivals: as those of ``TorchTensorOps``.
    """

    def __init__(
        self,
        eager: TorchTensorOps,
        precision: str,
        unwritten: TorchUnwrittenMemory,
        arrivals: TensorsInFlight | None = None,
    ) -> None:
        super().__init__(precision, False, unwritten, arrivals)
        self._eager = eager
        self._forget()

    def _forget(self) -> None:
        self._constant: torch.Tensor | None = None
        self._measured: list[tuple[dict[str, Any], MeasuredOnDevice]] = []
        self._copies: list[tuple[dict[str, Any], str, torch.Tensor]] = []
        self._constants: list[tuple[dict[str, Any], torch.Tensor]] = []

    def begin(self) -> None:
        self._forget()
        self._unwritten.known.clear()  # to look at such memory again the host would have to wait

    def capturing(self) -> bool:
        return any(captures_graph(device) for device in ("cuda", "npu"))

    def describe(self, tensor: torch.Tensor, statistics: bool, projection: bool = False) -> dict[str, Any]:
        """Return the node of a tensor without numbers.

        Parameters of a model that is not trained do not change: reading them again in each replay would cost as much as
        the model itself does where it works on few tokens. A sparse tensor has no numbers, because to add up its
        elements the host would have to wait.
        """
        is_constant = isinstance(tensor, torch.nn.Parameter) and not torch.is_grad_enabled()
        self._constant = tensor if is_constant else None
        strided = tensor.layout is torch.strided
        with WithoutSubclass():
            node = self._facts(tensor, statistics and strided, False)
        return node if strided or not statistics else {**node, **dict.fromkeys(STATISTIC_NAMES)}

    def keep(self, tensor: torch.Tensor, node: dict[str, Any], save_as: str) -> None:
        plain = with_memory(tensor) if tensor.layout is torch.strided else None
        if plain is not None:
            with WithoutAutograd(), WithoutSubclass():
                self._copies.append((node, save_as, plain.clone(memory_format=torch.contiguous_format)))

    def end(self) -> TorchCapturedValues:
        by_device: dict[torch.device, list[tuple[dict[str, Any], MeasuredOnDevice]]] = {}
        for entry in self._measured:
            by_device.setdefault(entry[1].device, []).append(entry)
        with WithoutAutograd():
            rows = [row for entries in by_device.values() if (row := Rows.of(entries)) is not None]
        values = TorchCapturedValues(self._eager.deferred, rows, self._copies, self._constants)
        self._forget()
        return values

    def _readable(self, tensor: torch.Tensor) -> torch.Tensor | None:
        return with_memory(tensor)

    def _measure(self, plain: torch.Tensor, node: dict[str, Any], projection: bool) -> None:
        if self._constant is not None:
            self._constants.append((node, self._constant))
            return
        once, repeats = without_repeats(plain)
        try:
            self._measured.append((node, measure(once, repeats)))
        except RuntimeError as error:  # torch has no arithmetic for this dtype: its facts are recorded
            let_through(error)
            return


class TorchCapturedValues:
    """Implements ``CapturedValues`` for PyTorch.

    Args:
        deferred: fetches the numbers.
        rows: the packed statistics, of each device that the graph computes on.
        copies, constants: as those of ``CapturedValues``.
    """

    def __init__(
        self,
        deferred: DeferredStatistics,
        rows: list[Rows],
        copies: list[tuple[dict[str, Any], str, torch.Tensor]],
        constants: list[tuple[dict[str, Any], torch.Tensor]],
    ) -> None:
        self._deferred = deferred
        self._rows = rows
        self.copies = copies
        self.constants = constants

    def arrive(self, copy_of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        for rows in self._rows:
            self._deferred.add_rows(rows.with_records(copy_of))  # the next replay writes the same memory again
