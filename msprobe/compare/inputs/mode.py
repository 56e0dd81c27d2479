"""How two dumps are compared: the kind of values that both hold, and the rules that judge them."""

from __future__ import annotations

from enum import Enum
from itertools import islice

from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor, leaves

_LOOKED_AT = 200


class Mode(str, Enum):
    """The three kinds of comparison; the text is the one used in messages."""

    TENSOR = "tensor"
    STATISTICS = "statistics"
    CHECKSUM = "md5"

    __str__ = str.__str__


class Policy(str, Enum):
    """The rules that decide about Result and Err_message: those of this tool, or the published thresholds."""

    DEFAULT = "default"
    REFERENCE = "reference"

    __str__ = str.__str__


def mode_of(target: Dump, golden: Dump) -> Mode:
    """The mode both dumps allow.

    Raises:
        NotComparableError: they were made by different tasks, hold different kinds of values, or nothing at all.
    """
    for dump, side in ((target, "target"), (golden, "golden")):
        if not dump.data:
            raise NotComparableError(f"the {side} {dump.place.document} holds no records (its data is empty)")
    if _saved(target) != _saved(golden):
        held = ("saved values", "calls") if _saved(target) else ("calls", "saved values")
        raise NotComparableError(
            f"{target.place.document} holds {held[0]}, {golden.place.document} {held[1]}; give two of one kind"
        )
    if target.task != golden.task:
        raise NotComparableError(
            f"the tasks differ: {target.task} in {target.place.document}, {golden.task} in {golden.place.document}; "
            "record both with one task"
        )
    if target.task == "tensor":
        return Mode.TENSOR
    if target.task != "statistics":
        raise NotComparableError(
            f"dumps of task {target.task} hold no values to compare ({target.place.document}); record statistics"
        )
    ours, theirs = _checksum(target), _checksum(golden)
    if ours != theirs:
        raise NotComparableError(
            f"{target.place.document} holds {_told(ours)}, {golden.place.document} {_told(theirs)}; "
            "use one summary_mode"
        )
    return Mode.CHECKSUM if ours else Mode.STATISTICS


def _saved(dump: Dump) -> bool:
    """Whether a dump holds what a program saved at points of its own, and no calls."""
    return all(name.endswith(".debug") for name in dump.data)


def _checksum(dump: Dump) -> str | None:
    """Which checksum the tensors have, md5 or xor (written ``0x...``), or None."""
    tensors = (leaf.raw for name, body in dump.data.items() for leaf in leaves(name, body) if is_tensor(leaf.raw))
    values = [raw["md5"] for raw in islice(tensors, _LOOKED_AT) if "md5" in raw]
    if not values:
        return None
    return "xor" if any(str(value).startswith("0x") for value in values) else "md5"


def _told(checksum: str | None) -> str:
    return f"checksums ({checksum})" if checksum else "no checksums"
