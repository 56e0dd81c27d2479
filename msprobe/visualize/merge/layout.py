"""How the ranks of a job are laid out, as the user says it, and the groups that follow from it.

With sizes ``n_d`` of the dimensions in the given order, the fastest first, the rank with coordinates ``c_d`` is
``c_0 + n_0 (c_1 + n_1 (c_2 + ...))``. What is not stated (context, expert) has size 1; data parallelism is the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.core.errors import MsprobeException

DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")
ORDER = "-".join(DIMENSIONS)


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of one side. ``vpp`` is the number of model chunks per pipeline stage."""

    rank_size: int
    tp: int
    pp: int
    vpp: int = 1
    order: str = ORDER

    def groups(self, dimension: str) -> list[list[int]]:
        """Ranks that differ in one dimension only, each group ascending, ordered by their first rank."""
        sizes = {"tp": self.tp, "pp": self.pp, "dp": self.rank_size // (self.tp * self.pp)}
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.rank_size):
            rest, key = rank, []
            for name in self.order.split("-"):
                size = sizes.get(name, 1)
                rest, coordinate = divmod(rest, size)
                if name != dimension:
                    key.append(coordinate)
            groups.setdefault(tuple(key), []).append(rank)
        return sorted(groups.values())


def layout(rank_size: int, tp: int, pp: int, vpp: int = 1, order: str = ORDER) -> Layout:
    """A checked layout.

    Raises:
        MsprobeException: the sizes contradict each other; says which and what would fit.
    """
    for name, value in (("--rank_size", rank_size), ("--tp", tp), ("--pp", pp), ("--vpp", vpp)):
        if value < 1:
            raise _wrong(f"{name} {value}: give a number of at least 1")
    for name, value in (("--tp", tp), ("--pp", pp)):
        if rank_size % value:
            raise _wrong(f"{name} {value} does not divide --rank_size {rank_size}")
    if rank_size % (tp * pp):
        raise _wrong(f"--tp {tp} times --pp {pp} is {tp * pp}, which does not divide --rank_size {rank_size}")
    if vpp > 1 and pp < 2:
        raise _wrong(f"--vpp {vpp} needs --pp of at least 2, got {pp}")
    words = order.split("-")
    if sorted(words) != sorted(set(words)) or not {"tp", "pp", "dp"} <= set(words) <= set(DIMENSIONS):
        raise _wrong(f"--order {order!r}: name tp, dp and pp once each, cp and ep at most once, such as {ORDER}")
    return Layout(rank_size, tp, pp, vpp, order)


def layouts(values: dict[str, Sequence[int]], orders: Sequence[str], sides: int) -> tuple[Layout, ...] | None:
    """The layout of each side from the values of the command line; None when nothing is to be merged.

    ``values`` holds rank_size, tp, pp and vpp; one value serves both sides.

    Raises:
        MsprobeException: a size is missing, or there are more values than sides.
    """
    if not any(values[name] for name in ("rank_size", "tp", "pp")):
        if values["vpp"] or orders:
            raise _wrong("--vpp and --order need --rank_size, --tp and --pp")
        return None
    for name, given in (*values.items(), ("order", orders)):
        if not given and name in ("rank_size", "tp", "pp"):
            raise _wrong(f"--{name} is missing; merging needs --rank_size, --tp and --pp")
        if len(given) not in (0, 1, sides):
            raise _wrong(f"--{name} has {len(given)} values; give {'one' if sides == 1 else 'one or two'}")
    found = []
    for side in range(sides):
        sizes = {name: given[min(side, len(given) - 1)] if given else 1 for name, given in values.items()}
        order = orders[min(side, len(orders) - 1)] if orders else ORDER
        found.append(layout(sizes["rank_size"], sizes["tp"], sizes["pp"], sizes["vpp"], order))
    return tuple(found)


def _wrong(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
