"""What two records of a tensor can be compared by: statistics, or checksums of one kind.

Records with none in common agree or differ in shape only, which says nothing about the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from msprobe.core.dump.leaf import tensor_nodes
from msprobe.core.tensors.statistics import STATISTIC_NAMES

SAMPLE_SIZE = 1000
KINDS_BY_MODE = {
    "statistics": frozenset({"statistics"}),
    "md5": frozenset({"statistics", "md5"}),
    "xor": frozenset({"xor"}),
}


def same_kind(here: str | None, golden: str | None) -> bool:
    """Return whether both sides have a checksum, made by the same algorithm."""
    return bool(here and golden) and checksum_kind(str(here)) == checksum_kind(str(golden))


def checksum_kind(checksum: str) -> str:
    """Return ``xor``, which is written ``0x...``, or ``md5``, the name that the dump uses for CRC-32."""
    return "xor" if checksum.startswith("0x") else "md5"


def missing_evidence(golden: Mapping[str, dict[str, Any]], summary_mode: str) -> str | None:
    """Return what ``golden`` holds and what this run records, in words, when they have nothing in common; else None.

    Args:
        golden: the ``data`` of a dump.json; its first ``SAMPLE_SIZE`` tensors are looked at. A dump without tensors
            can be compared with any run.
        summary_mode: that of this run.
    """
    kinds: set[str] = set()
    tensors = 0
    for node in islice((node for body in golden.values() for node in tensor_nodes(body)), SAMPLE_SIZE):
        tensors += 1
        if node.get("md5"):
            kinds.add(checksum_kind(str(node["md5"])))
        if any(node.get(name) is not None for name in STATISTIC_NAMES):
            kinds.add("statistics")
    recorded = KINDS_BY_MODE[summary_mode]
    if not tensors or kinds & recorded:
        return None
    return f"it holds {_kinds_text(kinds)}, this run {_kinds_text(set(recorded))}"


def _kinds_text(kinds: set[str]) -> str:
    words = {"statistics": "statistics", "md5": "md5 checksums", "xor": "xor checksums"}
    return " and ".join(words[key] for key in words if key in kinds) or "no values of tensors"
