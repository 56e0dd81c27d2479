"""Write the ``.pt`` file of a tensor.

``TensorFiles`` writes dense CPU tensors of the common dtypes from their memory; ``torch.save`` writes all others, in
the same format. Only the tensor's own elements are written, also where its storage is larger.
"""

from __future__ import annotations

import ctypes
import zlib
from pathlib import Path

import torch

from msprobe.adapters.pytorch.tensors.memory import WithoutAutograd, address, storage
from msprobe.core.interruption import let_through
from msprobe.core.store.safe_files import replacement_file
from msprobe.core.store.tensor_writer import LARGEST, TensorFiles
from msprobe.native import fused

_STORAGES = {
    torch.float16: ("HalfStorage", 2),
    torch.bfloat16: ("BFloat16Storage", 2),
    torch.float32: ("FloatStorage", 4),
    torch.float64: ("DoubleStorage", 8),
    torch.complex64: ("ComplexFloatStorage", 8),
    torch.complex128: ("ComplexDoubleStorage", 16),
    torch.bool: ("BoolStorage", 1),
    torch.uint8: ("ByteStorage", 1),
    torch.int8: ("CharStorage", 1),
    torch.int16: ("ShortStorage", 2),
    torch.int32: ("IntStorage", 4),
    torch.int64: ("LongStorage", 8),
}
"""Storage class and bytes per element, of the dtypes whose class is older than untyped storages."""

_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_memory.restype = ctypes.py_object
_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_READ_ONLY = 0x100  # PyBUF_READ


class TensorSaver:
    """Saves the tensors of one session.

    Args:
        native: use the compiled kernel for the CRC-32 of the archive where it is the faster one.
    """

    def __init__(self, native: bool) -> None:
        self._files = TensorFiles()
        self._crc32 = fused.crc32 if native and fused is not None and fused.FAST_CRC32 else None

    def save(self, plain: torch.Tensor, path: str | Path) -> None:
        """Write ``plain``, a detached strided tensor without pending conjugation or negation.

        Raises:
            OSError: the file cannot be written.
        """
        kind = _STORAGES.get(plain.dtype)
        if kind is None or type(plain) is not torch.Tensor or not plain.is_cpu:
            save_by_torch(plain, path)
            return
        size = plain.numel() * kind[1]
        if size >= LARGEST:
            save_by_torch(plain, path)
            return
        dense = plain  # lives until the file is written: only its address is handed on
        if not plain.is_contiguous():
            with WithoutAutograd():
                dense = plain.contiguous()
        pointer = address(dense)
        elements = _memory(pointer, size, _READ_ONLY) if size else b""
        crc = self._crc32(pointer, size) if self._crc32 is not None and size else zlib.crc32(elements)
        self._files.write(path, kind, tuple(dense.shape), elements, crc)


def save_by_torch(plain: torch.Tensor, path: str | Path) -> None:
    """Write a tensor with ``torch.save``, without what lies beside it in its storage.

    Raises:
        OSError: it cannot be written.
    """
    if not plain.is_contiguous():
        plain = plain.contiguous()
    elif storage(plain).nbytes() != plain.numel() * plain.element_size():
        plain = plain.clone()  # torch.save writes the whole storage behind a view
    try:
        with replacement_file(path) as file:
            torch.save(plain, file)  # of a path, the name would stand in the archive
    except RuntimeError as error:  # torch's writer reports a full disk as RuntimeError
        let_through(error)
        raise OSError(str(error).splitlines()[0]) from error
