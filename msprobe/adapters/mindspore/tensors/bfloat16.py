"""The values of bfloat16 tensors on the host, for NumPy 2.

MindSpore 2.10 has no numpy dtype for them there, and ``asnumpy`` raises an error. One operator converts them to
float32, which holds each of them exactly.
"""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
from mindspore import ops

_cast, _stop_gradient = ops.Cast(), ops.stop_gradient


def widened(tensor: Any) -> Any:
    """Return the elements of a bfloat16 tensor as float32.

    Raises:
        RuntimeError: a kernel of the program or of the conversion failed.
    """
    return _cast(_stop_gradient(tensor), mindspore.float32).asnumpy()


def bits_of(values: Any) -> Any:
    """Return the bits, as uint16, of bfloat16 numbers in a float32 array: the upper halves of its elements."""
    return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(values.shape)


def from_bits(bits: Any) -> Any:
    """Return bfloat16 numbers as float32 from their bits; the inverse of ``bits_of``."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
