"""Addresses of tensors: those of the memory that numpy reads, and none where elements lie apart."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor

from msprobe.adapters.mindspore.tensors.memory import address


def test_a_dense_tensor_lies_where_numpy_reads_it() -> None:
    tensor = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)) + 1
    assert address(tensor) == tensor.asnumpy().ctypes.data
    assert address(tensor[1]) in (address(tensor) + 16, tensor[1].asnumpy().ctypes.data)


def test_a_transposed_view_has_no_address() -> None:
    assert address((Tensor(np.ones((3, 4), np.float32)) + 1).transpose(1, 0)) == 0
