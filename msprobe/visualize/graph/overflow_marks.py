"""Where NaN and infinities appear (``-oc``): a level for each recorded call.

critical: the results are not finite although the inputs are; high: both are not finite, or the results grow beyond
100 times the inputs by L2 norm; medium: only the inputs are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor, leaves
from msprobe.core.tensors.statistics import NORM, STATISTICS, Merge
from msprobe.trace.leaves import as_float
from msprobe.visualize.graph.node import Graph

_CHECKED = tuple(spec.name for spec in STATISTICS if spec.merge is not Merge.ROOT_OF_SQUARES)
_BAD_TEXT = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})
_GROWTH = 100.0
# Calls whose results are memory that nothing has been written to, and inputs that a call only writes to.
_UNWRITTEN = frozenset({
    "empty",
    "empty_like",
    "empty_strided",
    "empty_with_format",
    "new_empty",
    "new_empty_strided",
})
_OVERWRITTEN_INPUTS: dict[str, tuple[str, ...]] = {
    "Distributed.recv": (".input.0", ".input.tensor"),
    "Distributed.irecv": (".input.0", ".input.tensor"),
    "Distributed.all_gather": (".input.0", ".input.tensor_list"),
    "Distributed.all_gather_into_tensor": (".input.0", ".input.output_tensor"),
    "Distributed._all_gather_base": (".input.0", ".input.output"),
    "Distributed.reduce_scatter": (".input.0", ".input.output"),
    "Distributed.reduce_scatter_tensor": (".input.0", ".input.output"),
    "Distributed._reduce_scatter_base": (".input.0", ".input.output"),
    "Distributed.all_to_all": (".input.0", ".input.output_tensor_list"),
    "Distributed.all_to_all_single": (".input.0", ".input.output"),
    "Distributed.batch_isend_irecv": (".input",),
    "Distributed.scatter": (".input.0", ".input.tensor"),
    "Distributed.gather": (".input.1", ".input.gather_list"),
    "Tensor.copy_": (".input.0",),
    "Tensor.fill_": (".input.0",),
    "Tensor.zero_": (".input.0",),
    "Tensor.normal_": (".input.0",),
    "Tensor.uniform_": (".input.0",),
    "Tensor.random_": (".input.0",),
    "Tensor.__setitem__": (".input.0",),
}


def mark_overflow(graph: Graph, *, parameters: bool) -> None:
    """Set ``overflow`` of every recorded node. ``parameters`` counts parameters and their gradients as inputs."""
    input_slots = {INPUT, PARAMETER, PARAMETER_GRAD} if parameters else {INPUT}
    for name, body in graph.dump.data.items():
        head = name.split(".", 2)
        if len(head) > 2 and head[1] in _UNWRITTEN:
            continue
        ignored = _OVERWRITTEN_INPUTS.get(".".join(head[:2]), ())
        tensors = [leaf for leaf in leaves(name, body) if is_tensor(leaf.raw)]
        inputs = [leaf.raw for leaf in tensors if leaf.slot in input_slots and not _is_inside(leaf, ignored)]
        outputs = [leaf.raw for leaf in tensors if leaf.slot == OUTPUT]
        graph.nodes[name].overflow = overflow_level(inputs, outputs)


def _is_inside(leaf: Leaf, suffixes: tuple[str, ...]) -> bool:
    return any(leaf.suffix == suffix or leaf.suffix.startswith(suffix + ".") for suffix in suffixes)


def overflow_level(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> str | None:
    """Return the level of a call from the recorded statistics of its tensors; None where nothing is wrong."""
    bad_input, bad_output = any(map(_is_bad, inputs)), any(map(_is_bad, outputs))
    if bad_output:
        return "high" if bad_input else "critical"
    if bad_input:
        return "medium"
    before, after = _largest_norm(inputs), _largest_norm(outputs)
    return "high" if after > _GROWTH * (before or 1.0) else None


def _is_bad(raw: dict[str, Any]) -> bool:
    for key in _CHECKED:
        value = raw.get(key)
        if type(value) is float:
            if not math.isfinite(value):
                return True
        elif type(value) is str and value.lower() in _BAD_TEXT:
            return True
    return False


def _largest_norm(raws: Iterable[dict[str, Any]]) -> float:
    norms = (as_float(raw.get(NORM.name)) for raw in raws)
    return max(filter(math.isfinite, norms), default=0.0)
