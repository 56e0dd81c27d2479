"""What two dumps can be compared by: whole tensors, statistics, or checksums."""

from __future__ import annotations

from enum import Enum
from itertools import islice

from msprobe.compare.items import is_tensor, leaves
from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import Dump

_LOOKED_AT = 200


class Mode(str, Enum):
    """The three kinds of comparison; the text is the one used in messages."""

    TENSOR = "tensor"
    STATISTICS = "statistics"
    CHECKSUM = "md5"

    __str__ = str.__str__


def mode_of(target: Dump, golden: Dump) -> Mode:
    """The mode both dumps allow.

    Raises:
        NotComparableError: they were made by different tasks, hold different kinds of values, or nothing at all.
    """
    for dump, side in ((target, "target"), (golden, "golden")):
        if not dump.data:
            raise NotComparableError(f"the {side} {dump.place.document} holds no records (its data is empty)")
    if target.task != golden.task:
        raise NotComparableError(
            f"the tasks differ: {target.task} in {target.place.document}, {golden.task} in {golden.place.document}"
        )
    if target.task == "tensor":
        return Mode.TENSOR
    if target.task != "statistics":
        raise NotComparableError(f"dumps of task {target.task} hold no values to compare ({target.place.document})")
    ours, theirs = _has_checksums(target), _has_checksums(golden)
    if ours != theirs:
        with_them, without = (target, golden) if ours else (golden, target)
        raise NotComparableError(
            f"{with_them.place.document} holds checksums, {without.place.document} none; use one summary_mode"
        )
    return Mode.CHECKSUM if ours else Mode.STATISTICS


def _has_checksums(dump: Dump) -> bool:
    tensors = (leaf.raw for name, body in dump.data.items() for leaf in leaves(name, body) if is_tensor(leaf.raw))
    return any("md5" in raw for raw in islice(tensors, _LOOKED_AT))
