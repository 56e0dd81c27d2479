"""``bench_path``: hold each call against a golden dump while training runs, and keep the data of those that differ.

A call differs when everything that went into it is the same as in the golden dump and something that came out is not:
so the first wrong operation is found, not all that follow from it. A module's parameters that are not the same are a
finding too, until gradients have differed: then an optimizer has spread it. A call cannot be judged when its inputs
are not the same already; nor can a backward when its forward was not the same throughout, since it works on what that
saved; nor the gradient of a parameter when a call of its module was not the same. How many calls could not be judged,
those that the golden dump does not have among them, is said at the end of the step.

Nested values and keyword arguments count. Two tensors are the same when their checksums, if of the same kind, are
equal; else when shape and statistics are (``TOLERANCE`` relative to the larger magnitude in the golden tensor).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.dump.evidence import STATISTICS, same_kind
from msprobe.core.dump.judging import Verdict, is_tensor_node, leaf_nodes, sides
from msprobe.core.dump.lineage import Lineage, split
from msprobe.core.log import logger
from msprobe.core.naming.model import Phase

TOLERANCE = 1e-5
PARAMETERS = "parameters"


@dataclass(slots=True)
class Divergence:
    """Whether the runs have differed in anything so far. One per session."""

    met: bool = False


class LiveDifference:
    """Judges calls against the entries of one golden step.

    Args:
        golden: the ``data`` of its dump.json.
        divergence: what is known from earlier steps, and will be in later ones.
    """

    def __init__(self, golden: Mapping[str, dict[str, Any]], divergence: Divergence | None = None) -> None:
        self._golden = golden
        self._divergence = divergence or Divergence()
        self._updated = self._divergence.met  # parameters may differ as a consequence
        self._lineage = Lineage()
        self._parameters: set[str] = set()
        self._judged = 0
        self._unknown = 0
        self._differing = 0
        self._unjudged = 0
        self._first_unjudged = ""

    def conclusion(self) -> str:
        text = f"{self._judged} calls compared with the golden dump, {self._differing} differ"
        if self._unjudged:
            text += (
                f"; {self._unjudged} calls cannot be judged, as what they started from differs already "
                f"(first: {self._first_unjudged})"
            )
        if self._unknown:
            text += f"; {self._unknown} calls are not in the golden dump and were not compared"
        return text

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> Verdict:
        expected = self._golden.get(name)
        owner, _, phase = split(name)
        if expected is None:
            self._unknown += 1
            if phase != Phase.PARAMETERS_GRAD.value:
                self._lineage.note(name, False)
            return Verdict()
        (given, made), (wanted_given, wanted_made) = sides(name, body), sides(name, expected)
        parameters = _first_difference(_parameters(given), _parameters(wanted_given))
        other = _first_difference(given, wanted_given)
        result = _first_difference(made, wanted_made)
        sound = self._lineage.sound(name)
        if phase == Phase.PARAMETERS_GRAD.value:
            if result is not None and sound and not final and not self._lineage.complete(name):
                return Verdict(wait=True)
        else:
            self._lineage.note(name, other is None and result is None)
        if parameters is not None and not self._updated and owner not in self._parameters:
            self._parameters.add(owner)
            return self._found(parameters)
        self._updated = self._updated or (phase != Phase.FORWARD.value and (other or result) is not None)
        if other is not None or not sound:
            return self._unjudgeable(name, other)
        if result is not None:
            return self._found(result)
        self._judged += 1
        return Verdict()

    def _found(self, difference: str) -> Verdict:
        self._judged += 1
        self._differing += 1
        self._divergence.met = True
        return Verdict(finding=difference)

    def _unjudgeable(self, name: str, difference: str | None) -> Verdict:
        self._unjudged += 1
        if not self._first_unjudged:
            self._first_unjudged = f"{name}: {difference}" if difference else name
        if difference is not None and not self._divergence.met:
            self._divergence.met = True
            logger.warning(
                "%s was given other values than in the golden run before any call went wrong: %s. The runs do not "
                "start from the same data, weights or random numbers; what follows from it cannot be judged",
                name,
                difference,
            )
        return Verdict()


def _parameters(given: dict[str, Node]) -> dict[str, Node]:
    return {key: node for key, node in given.items() if key == PARAMETERS}


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
    if same_kind(leaf.get("md5"), wanted.get("md5")):
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
