"""Read checkpoints that ``torch.save`` wrote, as plain values with tensors left in the file.

They are loaded with ``weights_only=True``: the pickle in the file can build tensors and containers, nothing else.
Training programs store further objects beside the weights (arguments, states of random generators). Each class that
torch would not load is replaced by one that only keeps the attributes, so that these objects neither run code nor need
the package that defines them.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from msprobe.core.errors import ReadError, error_text
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.store.zip_bombs import is_compressed
from msprobe.core.tensor_files.file_elements import elements_in_file
from msprobe.core.tensor_files.file_maps import FileMaps
from msprobe.core.tensors.dtypes import DType, find_dtype

DAMAGED = (
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    ImportError,
    OverflowError,
    RecursionError,
    MemoryError,
)
"""What reading a damaged or hostile file of torch raises."""
_REASON = re.compile(r"(?:WeightsUnpickler error:\s*|(?=Trying to load unsupported ))([^\n]*)")
_BIT_DTYPES = {"bfloat16": torch.int16, "complex32": torch.int32}


class _OpaqueObject:
    """Takes the place of an object of any class; ``state`` holds its attributes as the file has them."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        self.state: Mapping[str, Any] = {}

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, dict) else {}


def read_checkpoint(path: Path) -> Any:
    """Return the content of a checkpoint file.

    Dicts, lists, numbers and texts are as they are, tensors are ``LazyTensor``, and an object of another kind is a
    dict of its attributes (empty when it has none).

    Raises:
        ReadError: the file is missing, damaged, or asks for what must not be loaded.
    """
    try:
        with _opaque_classes(path), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = _load(path)
        return _Plain(path, FileMaps.of(path)).value(content)
    except FileNotFoundError:
        raise ReadError(f"{path}: no such file") from None
    except DAMAGED as error:
        raise ReadError(
            f"{path}: not a checkpoint that can be loaded safely ({load_failure_reason(error)}); copy it again"
        ) from error


def load_failure_reason(error: BaseException) -> str:
    """Return why ``torch.load(weights_only=True)`` failed, on one line and without its advice to load it unsafely."""
    match = _REASON.search(str(error))
    return match[1] if match and match[1] else error_text(error)


def _load(path: Path) -> Any:
    """Load the file, mapped into memory where its format allows that; torch would map compressed bytes as elements."""
    try:
        return torch.load(path, map_location="cpu", mmap=not is_compressed(path), weights_only=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True)


@contextmanager
def _opaque_classes(path: Path) -> Iterator[None]:
    """Let names in this file that torch would not load stand for opaque objects, inside this context."""
    if not hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint"):  # before PyTorch 2.6
        yield
        return
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except (ValueError, RuntimeError):  # not the zip format: loaded without them
        names = []
    with torch.serialization.safe_globals([(type("Record", (_OpaqueObject,), {}), name) for name in names]):
        yield


@dataclass(frozen=True, slots=True)
class _Plain:
    """Makes plain values of a loaded file; tensors that are mapped are read from the file at ``path``."""

    path: Path
    maps: FileMaps

    def value(self, value: Any) -> Any:
        """Return what ``read_checkpoint`` describes."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, _OpaqueObject):
            return self.value(value.state)
        if isinstance(value, Mapping):
            return {str(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def _tensor(self, tensor: torch.Tensor) -> LazyTensor:
        dtype = find_dtype(str(tensor.dtype))
        shape = tuple(tensor.shape)
        if dtype is None or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
            return LazyTensor(shape, str(tensor.dtype), lambda: _refuse(tensor))
        size = tensor.numel() * dtype.itemsize
        as_stored = tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
        place = self.maps.place_of(tensor.data_ptr(), size) if as_stored and size else None
        if place is not None:
            return elements_in_file(self.path, [(place, size)], shape, dtype)
        return LazyTensor(shape, dtype.name, lambda: bits_of(tensor, dtype))


def bits_of(tensor: torch.Tensor, dtype: DType) -> Any:
    """Return the elements as an array, in the container of their dtype."""
    bits = None if dtype.is_native else _BIT_DTYPES.get(dtype.name, torch.uint8)
    values = tensor.detach().resolve_conj().resolve_neg()
    return (values if bits is None else values.view(bits)).numpy().view(dtype.container)


def _refuse(tensor: torch.Tensor) -> Any:
    raise ReadError(f"a tensor of {tensor.dtype}, {tensor.layout}, cannot be read")
