"""Whether a tensor of one run is somewhere in the other run: by its checksum, or by its statistics.

Two programs that compute the same differ by rounding, so statistics may differ by a thousandth of the largest element,
or by some roundings of the number format where that is more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.inference.seen import tensor_signatures
from msprobe.numerics.tolerance import unit_roundoff

_ALIKE, _ROUNDINGS = 1e-3, 4.0
_ALL = 1 << 20
_SECTIONS = ("input_args", "input_kwargs", "input", "output")


class TensorIndex:
    """The tensors that the entries of one dump take and give. Shapes may differ, the number of elements may not."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._checksums: set[str] = set()
        statistics: dict[int, list[tuple[float, ...]]] = {}
        for body in data.values():
            sections = [body[name] for name in _SECTIONS if name in body] if isinstance(body, dict) else []
            for seen in tensor_signatures(sections, _ALL):
                if seen.checksum is not None:
                    self._checksums.add(seen.checksum)
                if seen.statistics is not None:
                    statistics.setdefault(seen.numel, []).append(seen.statistics)
        self._statistics: dict[int, NDArray[np.float64]] = {
            numel: np.array(list(dict.fromkeys(values))) for numel, values in statistics.items()
        }

    def contains(self, raw: dict[str, Any]) -> bool:
        """Whether the recorded tensor is here; also true for one of which nothing is known."""
        (seen,) = tensor_signatures(raw, 1) or (None,)
        if seen is None or (seen.checksum is None and seen.statistics is None):
            return True
        if seen.checksum in self._checksums:
            return True
        others = self._statistics.get(seen.numel)
        if seen.statistics is None or others is None:
            return False
        own = np.array(seen.statistics)
        share = max(_ALIKE, _ROUNDINGS * unit_roundoff(str(raw["dtype"])))
        scale = np.array([np.abs(own[:2]).max()] * 3 + [own[3]])
        return bool((np.abs(others - own) <= share * scale).all(axis=1).any())
