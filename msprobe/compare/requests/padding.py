"""How a batch is padded: packed rows to the length of a graph, or a row per request to the longest of them.

The ids of the tokens, the first integers of a step, tell: they have an axis of packed tokens, or one of requests and
one of tokens. On which side rows are padded follows from the integers of both runs (ids, positions, masks): those of
the request agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.compare.inputs.request_rows import RequestRows
from msprobe.compare.inputs.slices import cut_tensor
from msprobe.compare.requests.part_choice import read_recorded
from msprobe.compare.requests.token_axes import TokenAxes
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import Leaf, is_tensor
from msprobe.trace.leaves import is_shape

_EVIDENCE = 24
"""How many tensors of integers are looked at to tell on which side rows are padded."""


def padded_axes(table: LeafTable, axes: TokenAxes, whole: set[int], folders: tuple[Path, Path]) -> TokenAxes:
    """Return the axes with the lengths to which the batches are padded, and the side of rows.

    Args:
        table: both dumps.
        axes: where the request is in packed batches.
        whole: the rows of parameters.
        folders: the tensor files of both sides.
    """
    sides = ((table.target, axes.target), (table.golden, axes.golden))
    choices = [
        list(_padded([leaf for row, leaf in enumerate(leaves) if row not in whole], rows)) for leaves, rows in sides
    ]
    open_axes = [TokenAxes(target, golden) for target, golden in product(*choices)]
    if len(open_axes) == 1:
        return open_axes[0]
    return max(open_axes, key=lambda one: _agreeing(table, one, folders))


def _padded(leaves: Sequence[Leaf | None], rows: RequestRows) -> Iterator[RequestRows]:
    """Yield where the request may be: one way where the batch is packed, two where it has a row per request."""
    width = _width(leaves, rows)
    if width:
        yield from (rows.in_rows(width, left=left) for left in (True, False))
    else:
        yield rows.padded_to(_padded_length(leaves, rows.packed))


def _width(leaves: Iterable[Leaf | None], rows: RequestRows) -> int:
    """Return the length of a row per request; 0 where the batch is packed. The first integers of a step have to be of
    (requests, tokens), or of a single row that is longer than its request."""
    shape = next((own for leaf in leaves if is_index(leaf) and (own := shape_of(leaf))), ())
    if len(shape) != 2 or shape[0] != rows.requests or shape[1] < max(rows.all_tokens, default=0):
        return 0
    return shape[1] if rows.requests > 1 or shape[1] > rows.tokens else 0


def _agreeing(table: LeafTable, axes: TokenAxes, folders: tuple[Path, Path]) -> tuple[int, int]:
    """Return how many tensors of integers agree in the tokens of the request, and how many numbers there are not 0, as
    padding agrees with padding."""
    pairs = zip(table.target, table.golden, strict=True)
    integers = ((target, golden) for target, golden in pairs if is_index(target) and is_index(golden))
    found = [_agree(target, golden, axes, folders) for target, golden in islice(integers, _EVIDENCE)]
    return sum(each is not None for each in found), sum(each or 0 for each in found)


def _agree(target: Leaf | None, golden: Leaf | None, axes: TokenAxes, folders: tuple[Path, Path]) -> int | None:
    """Return how many numbers of the request are not 0 in two tensors that agree; None where they do not."""
    match = axes.match(shape_of(target) or (), shape_of(golden) or ())
    if match is None or not match.choices:
        return None
    left, right = read_recorded(target, folders[0]), read_recorded(golden, folders[1])
    if left is None or right is None:
        return None
    ranges: Any = match.choices[0].ranges
    own, other = np.squeeze(cut_tensor(left, ranges[0])), np.squeeze(cut_tensor(right, ranges[1]))
    return int(np.count_nonzero(own)) if np.array_equal(own, other) else None


def _padded_length(leaves: Iterable[Leaf | None], packed: int) -> int:
    """Return the length to which the rows of a batch are padded.

    The ids of the tokens are the first integers of a step; a tensor of floating-point numbers with as many rows has to
    follow.
    """
    length = 0
    for leaf in leaves:
        shape = shape_of(leaf)
        if leaf is None or not shape:
            continue
        if not length and is_index(leaf):
            length = max(shape)
        elif length > packed and not is_index(leaf) and length in (shape[0], shape[min(1, len(shape) - 1)]):
            return length
    return packed


def is_index(leaf: Leaf | None) -> bool:
    """Return whether a tensor holds integers."""
    dtype = str(leaf.raw.get("dtype", "")).lower() if leaf is not None and is_tensor(leaf.raw) else ""
    return "int" in dtype


def shape_of(leaf: Leaf | None) -> tuple[int, ...] | None:
    """Return the shape of a recorded tensor; None for anything else."""
    if leaf is None or not is_tensor(leaf.raw) or not is_shape(leaf.raw["shape"]):
        return None
    return tuple(leaf.raw["shape"])
