"""Writes an array as a tensor file of torch or safetensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.tensors.saver import save_by_torch
from msprobe.core.store.safe_files import replacement
from msprobe.core.tensors.dtypes import DType
from msprobe.core.tensors.numpy_ops import decode

Write = Callable[[Any, DType, Path], None]


def writer(kind: str) -> Write:
    """Return the function that writes elements, in the container of their dtype, into a file ``pt`` or ``safetensors``.

    The function raises OSError where the file cannot be written.

    Raises:
        ImportError: safetensors is not installed.
    """
    if kind == "pt":
        return lambda bits, dtype, path: save_by_torch(to_tensor(bits, dtype), path)
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    def write(bits: Any, dtype: DType, path: Path) -> None:
        try:
            with replacement(path) as temporary:
                save_file({"tensor": to_tensor(bits, dtype)}, temporary)
        except SafetensorError as error:
            raise OSError(f"{path}: {error}") from error

    return write


def to_tensor(bits: Any, dtype: DType) -> torch.Tensor:
    """Return the elements as a tensor of their type; of a type that torch lacks (hifloat8) as float32."""
    whole = np.array(bits, order="C")  # of its own: a mapped file cannot be written to
    if dtype.is_native:
        return torch.from_numpy(whole)
    kind = getattr(torch, dtype.name, None)
    if isinstance(kind, torch.dtype):
        return torch.from_numpy(whole.view(np.uint8 if dtype.itemsize == 1 else np.int16)).view(kind)
    return torch.from_numpy(decode(whole, dtype).astype(np.float32))
