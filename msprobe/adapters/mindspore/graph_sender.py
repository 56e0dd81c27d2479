"""How a value leaves a running graph.

On CPU an operator of the graph calls Python (``ops.Custom`` with a Python function). Ascend has no such operator: there
``ops.TensorDump`` writes a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import ops

Arrived = Callable[[Any, int], None]


def make_sender(arrived: Arrived) -> Callable[..., Any]:
    """An operator that takes a tensor and the number of its place, and gives the number back.

    ``arrived`` is called with the values (memory of the graph: to be used before it returns) and the number.
    """

    def msprobe_send(array: Any, place: Any) -> Any:
        arrived(array, int(place))
        return place

    return ops.Custom(
        msprobe_send, out_shape=lambda _, place: place, out_dtype=lambda _, place: place, func_type="pyfunc"
    )
