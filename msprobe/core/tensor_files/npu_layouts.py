"""Layouts of NPU memory as reshapes: how a stored tensor becomes the one that the program knows, and back.

With C0 elements per block (the last axis) and sizes rounded up to whole blocks:

    FRACTAL_NZ   (..., W1, H1, H0, W0)     of (..., H, W), W = W1*W0, H = H1*H0; (W) counts as (1, W)
    NC1HWC0      (N, C1, H, W, C0)         of (N, C, H, W)
    NDC1HWC0     (N, D, C1, H, W, C0)      of (N, C, D, H, W)
    FRACTAL_Z    (C1*H*W, N1, N0, C0)      of (N, C, H, W)

Source: "Data layout" of the CANN documentation (Ascend C, basic concepts). Padding is cut off where the original shape
is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.errors import ReadError

Array = NDArray[Any]
Shape = tuple[int, ...]

FORMATS = {
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    12: "NC1HWC0_C04",
    13: "FRACTAL_Z_C04",
    16: "HWCN",
    27: "NDHWC",
    29: "FRACTAL_NZ",
    30: "NCDHW",
    31: "DHWCN",
    32: "NDC1HWC0",
    33: "FRACTAL_Z_3D",
    47: "NCL",
    50: "FRACTAL_NZ",
    51: "FRACTAL_NZ",
    52: "FRACTAL_NZ",
    53: "FRACTAL_NZ",
    54: "FRACTAL_NZ",
}
"""The layouts by the number of ``aclFormat`` (CANN, ``acl/acl_base.h``); 50 to 54 name the width of the blocks of
FRACTAL_NZ, which the shape tells (47 and 50 to 54 are not confirmed by a public text)."""
NAMES = {"FRAC_Z": "FRACTAL_Z", "FracZ": "FRACTAL_Z", "FRAC_NZ": "FRACTAL_NZ"}
"""Names of layouts in files of MindSpore that are others than those of ``FORMATS``."""
BLOCKED = ("FRACTAL_NZ", "NC1HWC0", "NDC1HWC0", "FRACTAL_Z")


def to_plain(stored: Array, layout: str, original: Shape | None = None) -> Array:
    """Return the tensor as the program knows it; other layouts than ``BLOCKED`` stay as they are.

    Args:
        stored: the tensor in the shape of its layout.
        layout: a name of ``FORMATS``.
        original: the shape in the program; without it, padding stays.

    Raises:
        ReadError: the shape is not one of this layout, or the original shape does not fit into it.
    """
    if layout not in BLOCKED:
        return stored
    if layout == "FRACTAL_NZ":
        plain = _from_nz(stored)
        if original is not None and len(original) == 1:
            return _cut(plain, (*[1] * (plain.ndim - 1), *original), layout).reshape(original)
    elif layout == "NC1HWC0":
        _check_axes(stored, 5, layout)
        n, c1, h, w, c0 = stored.shape
        plain = stored.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)
    elif layout == "NDC1HWC0":
        _check_axes(stored, 6, layout)
        n, d, c1, h, w, c0 = stored.shape
        plain = stored.transpose(0, 2, 5, 1, 3, 4).reshape(n, c1 * c0, d, h, w)
    else:
        plain = _from_fractal_z(stored, original)
    return plain if original is None else _cut(plain, original, layout)


def to_blocks(plain: Array, layout: str, block: int = 16) -> Array:
    """Return a tensor in a blocked layout, padded with zeros: the inverse of ``to_plain``.

    Args:
        plain: the tensor of the program, (..., H, W) for FRACTAL_NZ, otherwise NCHW or NCDHW.
        layout: a name of ``BLOCKED``.
        block: C0, the elements per block.
    """
    if layout == "FRACTAL_NZ":
        padded = _padded(plain, {-2: 16, -1: block})
        h, w = padded.shape[-2:]
        blocks = padded.reshape(*padded.shape[:-2], h // 16, 16, w // block, block)
        return np.moveaxis(blocks, -2, -4)
    padded = _padded(plain, {1: block} if layout != "FRACTAL_Z" else {0: 16, 1: block})
    n, c = padded.shape[:2]
    rest = padded.shape[2:]
    if layout == "NC1HWC0":
        return padded.reshape(n, c // block, block, *rest).transpose(0, 1, 3, 4, 2)
    if layout == "NDC1HWC0":
        return padded.reshape(n, c // block, block, *rest).transpose(0, 3, 1, 4, 5, 2)
    h, w = rest
    blocks = padded.reshape(n // 16, 16, c // block, block, h, w).transpose(2, 4, 5, 0, 1, 3)
    return blocks.reshape(c // block * h * w, n // 16, 16, block)


def _from_nz(stored: Array) -> Array:
    if stored.ndim < 4:
        raise ReadError(f"shape {list(stored.shape)} is none of FRACTAL_NZ, which has at least 4 axes")
    w1, h1, h0, w0 = stored.shape[-4:]
    return np.moveaxis(stored, -4, -2).reshape(*stored.shape[:-4], h1 * h0, w1 * w0)


def _from_fractal_z(stored: Array, original: Shape | None) -> Array:
    _check_axes(stored, 4, "FRACTAL_Z")
    if original is None or len(original) != 4:
        raise ReadError("FRACTAL_Z needs the original shape (N, C, H, W), which the file does not hold")
    h, w = original[2:]
    blocks, n1, n0, c0 = stored.shape
    if not h * w or blocks % (h * w):
        raise ReadError(f"shape {list(stored.shape)} does not hold {list(original)} in FRACTAL_Z")
    c1 = blocks // (h * w)
    return stored.reshape(c1, h, w, n1, n0, c0).transpose(3, 4, 0, 5, 1, 2).reshape(n1 * n0, c1 * c0, h, w)


def check_original(original: Shape, whole: Shape, layout: str) -> None:
    """Check that a tensor lies in a padded one.

    Raises:
        ReadError: it does not.
    """
    if len(original) != len(whole) or any(not 0 <= size <= most for size, most in zip(original, whole, strict=True)):
        raise ReadError(f"the original shape {list(original)} does not fit into {layout} of {list(whole)}")


def _cut(plain: Array, original: Shape, layout: str) -> Array:
    check_original(original, plain.shape, layout)
    return plain[tuple(slice(size) for size in original)]


def _padded(plain: Array, blocks: dict[int, int]) -> Array:
    widths = [(0, 0)] * plain.ndim
    for axis, block in blocks.items():
        widths[axis] = (0, -plain.shape[axis] % block)
    return np.pad(plain, widths)


def _check_axes(stored: Array, axes: int, layout: str) -> None:
    if stored.ndim != axes:
        raise ReadError(f"shape {list(stored.shape)} is none of {layout}, which has {axes} axes")
