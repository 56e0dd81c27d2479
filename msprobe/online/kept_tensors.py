"""Tensors of checked operators as files, on both sides.

npu/mm.default_3_input.0.npy     what the operator was given          npu/mm.default_3_output.0.npy     what it returned
cpu/mm.default_3_output.0.npy    what the same call returned in a higher precision on the CPU
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from msprobe.core.backend.replaying import HeldTensor, PreparedCall
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder, replacement_file
from msprobe.replay.judged_call import ValueJudgement

MODES = ("OFF", "all", "list", "auto")


class KeptTensors:
    """Writes the tensors of calls that a mode chooses: ``all``, those of ``list``, or with ``auto`` the wrong ones."""

    def __init__(self, folder: Path, mode: str = "OFF", operators: Collection[str] = ()) -> None:
        self._folder, self._mode, self._operators = folder, mode, operators
        self._counts: Counter[str] = Counter()

    def keep(self, call: PreparedCall, values: Sequence[ValueJudgement], *, wrong: bool) -> None:
        """Write the tensors of a call where the mode chooses it.

        Raises:
            OSError: a file cannot be written.
        """
        listed = self._mode == "list" and {call.api, call.api.partition(".")[0]} & set(self._operators)
        if not (self._mode == "all" or listed or (self._mode == "auto" and wrong)):
            return
        number = self._counts[call.api]
        self._counts[call.api] += 1
        for side, place, tensor in _named(call, values):
            make_folder(self._folder / side)
            path = self._folder / side / file_name(f"{call.api}_{number}_{place}", ".npy")
            with replacement_file(path) as file:
                np.save(file, tensor.values, allow_pickle=False)


def _named(call: PreparedCall, values: Sequence[ValueJudgement]) -> Iterator[tuple[str, str, HeldTensor]]:
    for number, tensor in enumerate(call.tensors()):
        yield "npu", f"input.{number}", tensor
    for number, value in enumerate(values):
        for side, tensor in (("npu", value.target), ("cpu", value.golden)):
            if isinstance(tensor, HeldTensor):
                yield side, f"output.{number}", tensor
