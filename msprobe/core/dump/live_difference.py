"""``bench_path``: hold each call against a golden dump while training runs, and keep the data of those that differ.

A call differs when everything that went into it is the same as in the golden dump and something that came out is not:
so the first wrong operation is found, not all that follow from it. Nested values and keyword arguments count. Two
tensors are the same when their checksums are equal; where one side has none, when shape and statistics are
(``TOLERANCE`` relative to the larger magnitude in the golden tensor). A call that the golden dump does not have cannot
be judged; how many there were is said at the end of the step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.judging import Verdict, is_tensor_node, leaf_nodes, sides

TOLERANCE = 1e-5
STATISTICS = ("Max", "Min", "Mean", "Norm")


class LiveDifference:
    """Judges calls against the entries of one golden step.

    Args:
        golden: the ``data`` of its dump.json.
    """

    def __init__(self, golden: Mapping[str, dict[str, Any]]) -> None:
        self._golden = golden
        self._judged = 0
        self._unknown = 0
        self._differing = 0

    def conclusion(self) -> str:
        unknown = f"; {self._unknown} calls are not in the golden dump and were not compared" if self._unknown else ""
        return f"{self._judged} calls compared with the golden dump, {self._differing} differ{unknown}"

    def judge(self, name: str, body: dict[str, Node]) -> Verdict:
        expected = self._golden.get(name)
        if expected is None:
            self._unknown += 1
            return Verdict()
        self._judged += 1
        given, made = sides(name, body)
        wanted_given, wanted_made = sides(name, expected)
        if _first_difference(given, wanted_given) is not None:
            return Verdict()
        difference = _first_difference(made, wanted_made)
        self._differing += difference is not None
        return Verdict(finding=difference)


def _first_difference(here: dict[str, Node], golden: dict[str, Node]) -> str | None:
    """The first value of the golden side that differs here, in words. Sections only one side has do not count."""
    common = here.keys() & golden.keys()
    found = {path: leaf for key in here if key in common for path, leaf in leaf_nodes(here[key], key)}
    for key in golden:
        if key not in common:
            continue
        for path, wanted in leaf_nodes(golden[key], key):
            difference = _difference(found.get(path), wanted)
            if difference is not None:
                return f"{path} differs from the golden dump: {difference}"
    return None


def _difference(leaf: Any, wanted: dict[str, Any]) -> str | None:
    if not is_tensor_node(wanted):
        number = wanted.get("value")
        if not isinstance(number, (bool, int, float)):
            return None  # devices, groups and texts differ between machines without any harm
        same = leaf is not None and _same_number(leaf.get("value"), number, 0.0)
        return None if same else f"{_value(leaf)} (golden {_value(wanted)})"
    if not is_tensor_node(leaf):
        return "no tensor here"
    if list(leaf["shape"]) != list(wanted["shape"]):
        return f"shape {list(leaf['shape'])} (golden {list(wanted['shape'])})"
    if leaf.get("md5") and wanted.get("md5"):
        if leaf["md5"] == wanted["md5"]:
            return None
        return f"checksum {leaf['md5']} (golden {wanted['md5']}){_also(leaf, wanted)}"
    return _statistic_difference(leaf, wanted)


def _statistic_difference(leaf: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    scale = max((abs(float(wanted[key])) for key in ("Max", "Min") if _is_finite(wanted.get(key))), default=0.0)
    for key in STATISTICS:
        # the sum behind a mean is as uncertain as the magnitude of what is summed
        here, golden = leaf.get(key), wanted.get(key)
        if here is not None and golden is not None and not _same_number(here, golden, TOLERANCE * scale):
            return f"{key} {here} (golden {golden})"
    return None


def _also(leaf: dict[str, Any], wanted: dict[str, Any]) -> str:
    statistic = _statistic_difference(leaf, wanted)
    return f", {statistic}" if statistic else ""


def _same_number(here: Any, golden: Any, absolute: float) -> bool:
    if isinstance(here, float) or isinstance(golden, float):
        try:
            here, golden = float(here), float(golden)
        except (TypeError, ValueError):
            return False
        if math.isnan(here) or math.isnan(golden):
            return math.isnan(here) and math.isnan(golden)
        return math.isclose(here, golden, rel_tol=TOLERANCE, abs_tol=absolute)
    return bool(here == golden)


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _value(leaf: Any) -> str:
    return "nothing" if leaf is None else str(leaf.get("value", leaf.get("type")))
