"""``bench_path``: compare each call with a golden dump while training runs, and keep the data of calls that differ.

A call differs when all its inputs are the same as in the golden dump and one of its outputs is not: so the first wrong
operation is reported, not all that follow from it. Parameters of a module that differ are a finding too, until a
gradient has differed: from then on an optimizer has spread the difference. A call that the golden dump does not have
is no finding: the values of later calls show whether it matters. A call cannot be judged when its inputs
differ already, nor a backward when its forward differed anywhere (it works on what that saved), nor the gradient of a
parameter when a call of its module differed. The end of the step reports how many calls could not be judged, and how
many the golden dump does not have.

Nested values and keyword arguments are compared. Two tensors are the same when their checksums, if of the same kind,
are equal; else when shape and statistics are (within ``TOLERANCE``, relative to the larger magnitude in the golden
tensor). A golden dump that has neither statistics nor checksums of the kind of this run says nothing about values, so
it is refused (``missing_evidence``).

``GoldenSteps`` finds the recorded step and process that correspond to the present ones, below the root of a dump.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from msprobe.core.capture.describe import Node
from msprobe.core.dump.record.tensor_node import split_sides, tensor_nodes
from msprobe.core.dump.tasks.judged_recorder import CallDependencies, CallVerdict, split_name
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.naming.names import Phase
from msprobe.core.store.layout import step_folder
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.core.store.record_walk import is_tensor, values_below
from msprobe.core.tensors.statistics import STATISTIC_NAMES

SAMPLE_SIZE = 1000

TOLERANCE = 1e-5
PARAMETERS = "parameters"
KINDS_BY_MODE = {
    "statistics": frozenset({"statistics"}),
    "md5": frozenset({"statistics", "md5"}),
    "xor": frozenset({"xor"}),
}


class LiveComparison:
    """Judge calls against the entries of one golden step.

    Args:
        golden: the ``data`` of its dump.json.
        divergence: whether an earlier step differed; this step adds to it.
    """

    needs_statistics: ClassVar[bool] = False  # the golden dump may have nothing but checksums

    def __init__(self, golden: Mapping[str, dict[str, Any]], divergence: Divergence | None = None) -> None:
        self._golden = golden
        self._divergence = divergence or Divergence()
        self._updated = self._divergence.occurred  # parameters may differ as a consequence
        self._dependencies = CallDependencies()
        self._reported_parameters: set[str] = set()
        self._judged = 0
        self._not_in_golden = 0
        self._first_not_in_golden = ""
        self._only_here = ""
        self._differing = 0
        self._unjudged = 0
        self._first_unjudged = ""

    def conclusion(self) -> str:
        """Return how many calls were compared, differ, could not be judged, and are not in the golden dump."""
        text = f"{self._judged} calls compared with the golden dump, {self._differing} differ"
        if self._unjudged:
            text += (
                f"; {self._unjudged} calls cannot be judged, as what they started from differs already "
                f"(first: {self._first_unjudged})"
            )
        if self._not_in_golden:
            calls = "1 call is" if self._not_in_golden == 1 else f"{self._not_in_golden} calls are"
            text += f"; {calls} not in the golden dump and not compared (first: {self._first_not_in_golden})"
        return text

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> CallVerdict:
        """Return the verdict on a finished call."""
        golden = self._golden.get(name)
        owner, _, phase = split_name(name)
        is_gradient = phase == Phase.PARAMETERS_GRAD.value
        if golden is None:
            return self._unknown(name, is_gradient)
        (inputs, outputs), (golden_inputs, golden_outputs) = split_sides(body), split_sides(golden)
        parameters = _first_difference(_parameters(inputs), _parameters(golden_inputs))
        input_difference = _first_difference(inputs, golden_inputs)
        output_difference = _first_difference(outputs, golden_outputs)
        sound = self._dependencies.is_sound(name)
        if not is_gradient:
            self._dependencies.record(name, input_difference is None and output_difference is None)
        elif output_difference is not None and sound and not final and not self._dependencies.is_complete(name):
            return CallVerdict(defer=True)
        if parameters is not None and not self._updated and owner not in self._reported_parameters:
            self._reported_parameters.add(owner)
            return self._differs(parameters)
        differs = (input_difference or output_difference) is not None
        self._updated = self._updated or (phase != Phase.FORWARD.value and differs)
        if input_difference is not None or not sound:
            return self._unjudgeable(name, input_difference)
        if output_difference is not None:
            return self._differs(output_difference)
        self._judged += 1
        self._only_here = ""
        return CallVerdict()

    def _unknown(self, name: str, is_gradient: bool) -> CallVerdict:
        """Count a call that the golden dump does not have. Whether it is wrong, the values of later calls show."""
        self._not_in_golden += 1
        self._first_not_in_golden = self._first_not_in_golden or name
        self._only_here = self._only_here or name
        if not is_gradient:
            self._dependencies.record(name, False)
        return CallVerdict()

    def _differs(self, difference: str) -> CallVerdict:
        self._judged += 1
        self._differing += 1
        self._divergence.occurred = True
        return CallVerdict(finding=difference)

    def _unjudgeable(self, name: str, difference: str | None) -> CallVerdict:
        self._unjudged += 1
        if not self._first_unjudged:
            self._first_unjudged = f"{name}: {difference}" if difference else name
        if difference is not None and not self._divergence.occurred:
            self._divergence.occurred = True
            logger.warning(
                "%s was given other values than in the golden run before any call went wrong: %s. %s; what follows "
                "from it cannot be judged",
                name,
                difference,
                self._cause(),
            )
        return CallVerdict()

    def _cause(self) -> str:
        """Return in words why the first call that cannot be judged was given other values."""
        if self._only_here:
            return f"Only this run calls {self._only_here} just before; that code may have made them"
        return "The runs do not start from the same data, weights or random numbers"


@dataclass(slots=True)
class Divergence:
    """Whether the two runs have differed in anything so far. A session has one of these."""

    occurred: bool = False


def _parameters(inputs: dict[str, Node]) -> dict[str, Node]:
    return {key: node for key, node in inputs.items() if key == PARAMETERS}


def _first_difference(here: dict[str, Node], golden: dict[str, Node]) -> str | None:
    """Return the first value of the golden side that differs here, in words; sections of only one side do not count."""
    common = here.keys() & golden.keys()
    leaves = {leaf.suffix: leaf.raw for key in here if key in common for leaf in values_below(here[key], key)}
    for key in golden:
        if key not in common:
            continue
        for path, _, golden_leaf in values_below(golden[key], key):
            difference = _leaf_difference(leaves.get(path), golden_leaf)
            if difference is not None:
                return f"{path} differs from the golden dump: {difference}"
    return None


def _leaf_difference(leaf: Any, golden: dict[str, Any]) -> str | None:
    if not is_tensor(golden):
        number = golden.get("value")
        if not isinstance(number, (bool, int, float)):
            return None  # devices, groups and texts differ between machines without any harm
        same = leaf is not None and _same_number(leaf.get("value"), number, 0.0)
        return None if same else f"{_value_text(leaf)} (golden {_value_text(golden)})"
    if not is_tensor(leaf):
        return "no tensor here"
    if list(leaf["shape"]) != list(golden["shape"]):
        return f"shape {list(leaf['shape'])} (golden {list(golden['shape'])})"
    if same_kind(leaf.get("md5"), golden.get("md5")):
        if leaf["md5"] == golden["md5"]:
            return None
        statistic = _statistic_difference(leaf, golden)
        return f"checksum {leaf['md5']} (golden {golden['md5']}){f', {statistic}' if statistic else ''}"
    return _statistic_difference(leaf, golden)


def _statistic_difference(leaf: dict[str, Any], golden: dict[str, Any]) -> str | None:
    # the sum behind a mean is as uncertain as the magnitude of what is summed
    scale = max((abs(float(golden[key])) for key in ("Max", "Min") if _is_finite_number(golden.get(key))), default=0.0)
    for key in STATISTIC_NAMES:
        value, golden_value = leaf.get(key), golden.get(key)
        if value is None or golden_value is None:
            continue
        if not _same_number(value, golden_value, TOLERANCE * scale):
            return f"{key} {value} (golden {golden_value})"
    return None


def _same_number(value: Any, golden: Any, absolute: float) -> bool:
    if isinstance(value, float) or isinstance(golden, float):
        try:
            value, golden = float(value), float(golden)
        except (TypeError, ValueError) as error:
            let_through(error)
            return False
        if math.isnan(value) or math.isnan(golden):
            return math.isnan(value) and math.isnan(golden)
        return math.isclose(value, golden, rel_tol=TOLERANCE, abs_tol=absolute)
    return bool(value == golden)


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _value_text(leaf: Any) -> str:
    return "nothing" if leaf is None else str(leaf.get("value", leaf.get("type")))


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


class GoldenSteps:
    """The entries of a golden dump, step by step.

    Args:
        path: the ``dump_path`` of the golden run.
        summary_mode: that of this run; the golden dump must have something that can be compared with it.
    """

    def __init__(self, path: str, summary_mode: str) -> None:
        self._root = Path(path).absolute()
        self._summary_mode = summary_mode
        self._loaded = False
        self.divergence = Divergence()

    def data(self, step: int, rank: int | None) -> dict[str, dict[str, Any]]:
        """Return the ``data`` of the dump of ``step``.

        It is empty, with a warning, when the golden run lacks a step after the first one.

        Raises:
            MsprobeException: the first step is missing, or has several processes, or has neither statistics nor
                checksums of the kind that this run takes.
            ReadError: the dump is damaged.
        """
        folder = golden_folder(self._root, step, rank)
        if folder is None:
            process = "" if rank is None else f", rank {rank}"
            where = f"bench_path: {self._root} holds nothing of step {step}{process}"
            return self._reject(where, "give the dump_path of a run of these steps")
        data = load_dump(find_dumps(folder)[0]).data
        missing = missing_evidence(data, self._summary_mode)
        if missing is not None:
            where = f"bench_path: {folder} has nothing"
            return self._reject(where, f"{missing}; give both runs the same summary_mode")
        self._loaded = True
        return data

    def _reject(self, where: str, advice: str) -> dict[str, dict[str, Any]]:
        """Raise for the first step; warn and return no entries for a later one, as training must go on."""
        if not self._loaded:
            raise MsprobeException(0, f"{where} to compare with: {advice}")
        logger.warning("%s to compare with (%s): the calls are recorded and not compared", where, advice)
        return {}


def golden_folder(root: Path, step: int, rank: int | None) -> Path | None:
    """Return ``{root}/step{N}/rank{R}``, else the only folder of a process in that step; None when there is none.

    Raises:
        MsprobeException: the step has several processes, and none of them has this rank.
    """
    folder = step_folder(root, step)
    if rank is not None and folder.joinpath(f"rank{rank}").is_dir():
        return folder.joinpath(f"rank{rank}")
    folders = sorted(child for child in folder.glob("*") if child.is_dir() and child.name.startswith(("proc", "rank")))
    candidates = [child for child in folders if rank is None or child.name.startswith("proc")]
    if len(candidates) > 1:  # of the newest run
        newest = {place.document.parent for place in find_dumps(folder)}
        candidates = [child for child in candidates if child in newest] or candidates
    if len(candidates) > 1:
        names = ", ".join(child.name for child in candidates[:5])
        raise MsprobeException(0, f"{folder} holds several processes ({names}): leave only the one to compare with")
    return candidates[0] if candidates else None
