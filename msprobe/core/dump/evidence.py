"""What two records of a tensor can be held against each other by: statistics, or checksums of one kind.

Records with none in common agree or differ in shape only, which says nothing of the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from msprobe.core.dump.judging import tensor_nodes

LOOKED_AT = 1000
STATISTICS = ("Max", "Min", "Mean", "Norm")
BY_MODE = {
    "statistics": frozenset({"statistics"}),
    "md5": frozenset({"statistics", "md5"}),
    "xor": frozenset({"xor"}),
}


def same_kind(here: str | None, golden: str | None) -> bool:
    """Whether both sides have a checksum, and by the same algorithm."""
    return bool(here and golden) and kind(str(here)) == kind(str(golden))


def kind(checksum: str) -> str:
    """``xor``, which is written ``0x...``, or ``md5``, the name that CRC-32 goes by."""
    return "xor" if checksum.startswith("0x") else "md5"


def nothing_common(golden: Mapping[str, dict[str, Any]], summary_mode: str) -> str | None:
    """What a dump with ``summary_mode`` has and what ``golden`` has, in words, when that is nothing in common.

    Args:
        golden: the ``data`` of a dump.json; one without tensors has everything in common.
    """
    found: set[str] = set()
    tensors = 0
    for node in islice((node for body in golden.values() for node in tensor_nodes(body)), LOOKED_AT):
        tensors += 1
        if node.get("md5"):
            found.add(kind(str(node["md5"])))
        if any(node.get(statistic) is not None for statistic in STATISTICS):
            found.add("statistics")
    wanted = BY_MODE[summary_mode]
    if not tensors or found & wanted:
        return None
    return f"it holds {_told(found)}, this run {_told(set(wanted))}"


def _told(found: set[str]) -> str:
    words = {"statistics": "statistics", "md5": "md5 checksums", "xor": "xor checksums"}
    return " and ".join(words[key] for key in words if key in found) or "no values of tensors"
