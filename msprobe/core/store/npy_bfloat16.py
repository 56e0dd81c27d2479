"""Reads ``.npy`` files of bfloat16, for which MindSpore's runtime writes a type that numpy lacks, ``'<E2'``."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BFLOAT16 = "<E2"


def read_bfloat16(path: Path) -> NDArray[Any] | None:
    """Return the elements as float32, which holds them exactly; None when the file is not of bfloat16.

    Raises:
        ValueError: the file is damaged.
    """
    with path.open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(file.read(2 if start[6:7] == b"\x01" else 4), "little")
        try:
            header = ast.literal_eval(file.read(size).decode("latin1"))
        except SyntaxError as error:
            raise ValueError("its header is damaged") from error
        if start[:6] != b"\x93NUMPY" or not isinstance(header, dict) or header.get("descr") != _BFLOAT16:
            return None
        bits = np.frombuffer(file.read(), dtype="<u2")
    shape = tuple(int(length) for length in header["shape"])
    values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.reshape(values, shape, order="F" if header["fortran_order"] else "C")
