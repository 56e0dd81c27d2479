"""How two dumps are compared: the kind of values that both hold, and the rules that judge them."""

from __future__ import annotations

from enum import Enum
from itertools import islice

from msprobe.compare.inputs.structure import STRUCTURE
from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor, leaves

_SAMPLE_SIZE = 200


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
    """Return the mode in which both dumps can be compared.

    Raises:
        NotComparableError: they were made by different tasks, hold different kinds of values, or nothing at all.
    """
    for dump, side in ((target, "target"), (golden, "golden")):
        if not dump.data:
            raise NotComparableError(f"the {side} {dump.place.document} holds no records (its data is empty)")
    if _has_saved_values(target) != _has_saved_values(golden):
        held = ("saved values", "calls") if _has_saved_values(target) else ("calls", "saved values")
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
    if target.task == STRUCTURE:
        return Mode.STATISTICS
    if target.task != "statistics":
        raise NotComparableError(
            f"dumps of task {target.task} hold no values to compare ({target.place.document}); record statistics"
        )
    target_checksum, golden_checksum = _checksum(target), _checksum(golden)
    if target_checksum != golden_checksum:
        raise NotComparableError(
            f"{target.place.document} holds {_checksum_text(target_checksum)}, "
            f"{golden.place.document} {_checksum_text(golden_checksum)}; use one summary_mode"
        )
    return Mode.CHECKSUM if target_checksum else Mode.STATISTICS


def _has_saved_values(dump: Dump) -> bool:
    """Return whether a dump holds values that a program saved with ``save``, and no calls."""
    return all(name.endswith(".debug") for name in dump.data)


def _checksum(dump: Dump) -> str | None:
    """Return which checksum the tensors have, md5 or xor (written ``0x...``); None without checksums."""
    tensors = (leaf.raw for name, body in dump.data.items() for leaf in leaves(name, body) if is_tensor(leaf.raw))
    values = [raw["md5"] for raw in islice(tensors, _SAMPLE_SIZE) if "md5" in raw]
    if not values:
        return None
    return "xor" if any(str(value).startswith("0x") for value in values) else "md5"


def _checksum_text(checksum: str | None) -> str:
    return f"checksums ({checksum})" if checksum else "no checksums"
