"""The verdicts of nodes, from the rows of a comparison, and what rolls up from nodes to their parents.

A node's own verdict is that of its worst value. What rolls up is the worst verdict below it, the node included. Both
sides of a pair have the same, and a call that only the golden run has counts in the module that lacks it.
"""

from __future__ import annotations

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.records.entries import Absence
from msprobe.compare.rows.levels import LEVEL_NAMES
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.verdict import RowKind
from msprobe.visualize.compare.node_pairs import is_of_layout_only
from msprobe.visualize.graph.node import Graph, Node, NodeKind, NodeVerdict
from msprobe.visualize.values.row_verdicts import RowVerdicts

NO_SIZE = 1e300
"""The error of a node whose difference is not a matter of size."""

SEVERITY = {"no_data": 0, "same": 1, "pass": 2, "not_compared": 3, "unmatched": 4, "warning": 5, "error": 6}
_COUNT_INDEX = {"same": 0, "pass": 0, "not_compared": 1, "warning": 1, "error": 2, "unmatched": 3}
_PRECISION = {"same": 0, "pass": 0, "not_compared": 0.5, "warning": 0.5, "error": 1, "unmatched": 0.5}
_LEVEL_PRECISION = (0, 0.5, 1)
_EMPTY_FAMILY = frozenset({
    "empty",
    "empty_like",
    "empty_with_format",
    "new_empty",
    "new_empty_strided",
    "empty_strided",
})
_GROUPED = "the other run was recorded at another level and has no such group of calls"
_RECOMPUTED = "recomputed forward call, on one side only; nothing is missing"
_OTHER_CODE = "only this program makes this call; where the code differs that is no difference"
_ABSENCE_REASONS = {
    Absence.RECORDED_OTHERWISE: "the tool that recorded the other run records no such call",
    Absence.RECOMPUTED: _RECOMPUTED,
    Absence.RECOMPUTED_UNMATCHED: _RECOMPUTED,
    Absence.RUN_ENDED: "the other run ended before this call",
    Absence.OTHER_PROGRAM: _OTHER_CODE,
    Absence.FUSED: _OTHER_CODE,
}
"""The reason of ``NOT_RECORDED_AT_LEVEL`` is in the table."""


def set_verdicts(
    graphs: tuple[Graph, Graph], comparison: Comparison, rows: RowVerdicts, *, merged: bool = False
) -> None:
    """Set the verdict of every node of both graphs. ``merged`` expects calls that only one layout of ranks has."""
    target, golden = graphs
    for graph, other in ((target, "golden run"), (golden, "target")):
        for node in graph.nodes.values():
            node.verdict = _verdict_without_partner(node, other, merged) if node.match is None and node.parent else None
    _set_from_rows(target, golden, comparison, rows)
    for node in target.nodes.values():
        if node.verdict is None:
            node.verdict = NodeVerdict()
        if node.match is not None:
            node.match.verdict = node.verdict
    if comparison.policy is Policy.REFERENCE:
        _set_published_precision(target, checksums=comparison.mode is Mode.CHECKSUM)
    roll_up(target, golden)
    if comparison.policy is not Policy.REFERENCE:
        for node in target.nodes.values():
            if node.match is not None and node.verdict is not None:
                node.verdict.precision = _PRECISION.get(node.verdict.rollup)


def _verdict_without_partner(node: Node, other: str, merged: bool) -> NodeVerdict:
    if merged and (node.kind is NodeKind.COLLECTION or is_of_layout_only(node)):
        return NodeVerdict("not_compared", reason="only this layout of ranks has it", excused=True)
    return NodeVerdict("unmatched", reason=f"no partner in the {other}")


def _excuse_groups(graph: Graph) -> None:
    """Excuse groups of calls that only one side has, where the calls in them have partners or excuses.

    Runs that were recorded at different levels group the same calls differently.
    """
    for node in graph.post_order():
        if node.match is not None or node.parent is None or node.name in graph.dump.data or not node.children:
            continue
        if all(child.match is not None or (child.verdict and child.verdict.excused) for child in node.children):
            node.verdict = NodeVerdict("not_compared", reason=_GROUPED, excused=True)


def _set_from_rows(target: Graph, golden: Graph, comparison: Comparison, rows: RowVerdicts) -> None:
    table = comparison.table
    starts = table.starts.tolist()
    levels, errors, differing, checked = _worst_per_entry(comparison, rows)
    for number, pair in enumerate(table.entries):
        if pair.target is None or pair.golden is None:
            node = target.nodes[pair.target] if pair.target is not None else golden.nodes[pair.golden or ""]
            if pair.absence in (Absence.OTHER_CODE, Absence.NOT_SHOWN):
                continue  # a graph shows what has no partner, whether it is a divergence or not
            if pair.absence is not None:
                node.verdict = NodeVerdict(
                    "not_compared", reason=_absence_reason(table, number, pair.absence), excused=True
                )
            elif number in table.changed:
                changed = table.changed[number]
                reason = f"{changed.suffix.lstrip('.')} {changed.text}"
                node.verdict = NodeVerdict("error", error=NO_SIZE, reason=reason)
            continue
        node = target.nodes[pair.target]
        start, stop = starts[number], starts[number + 1]
        if node.match is None or start == stop:
            continue
        level = levels[number]
        node.verdict = _paired_verdict(level, errors[number], differing[number], checked[number])
        if level:
            node.verdict.reason = _worst_reason(comparison, rows, range(start, stop), level)
    _set_part_verdicts(target, golden, table)
    if table.unrecorded:
        _excuse_groups(target)
        _excuse_groups(golden)


def _worst_per_entry(
    comparison: Comparison, rows: RowVerdicts
) -> tuple[list[int], list[float], list[bool], list[bool]]:
    """Return by entry: the worst level, the largest error, whether values differ, whether any value was compared.

    The error is in multiples of what is allowed.
    """
    table, measured = comparison.table, comparison.measured
    levels = np.array([*rows.levels, 0])
    no_size = measured.kind >= RowKind.ARGUMENT
    allowed = np.nan_to_num(comparison.judged.times, nan=0.0, posinf=NO_SIZE).clip(0.0, NO_SIZE)
    times = np.append(np.where(no_size, NO_SIZE, allowed), 0.0)
    unchecked = (measured.kind > RowKind.NONE) & (measured.kind <= RowKind.UNCHECKED)
    differs = np.append(no_size | (measured.worst > 0.0), False)
    checked = np.append(~unchecked, False)
    starts = table.starts[:-1]
    if not len(starts):
        return [], [], [], []
    return (
        np.maximum.reduceat(levels, starts).tolist(),
        np.maximum.reduceat(times, starts).tolist(),
        np.logical_or.reduceat(differs, starts).tolist(),
        np.logical_or.reduceat(checked, starts).tolist(),
    )


def _absence_reason(table: LeafTable, number: int, absence: Absence) -> str:
    """Return in words why it is no difference that only one side has an entry."""
    return table.unrecorded[number] if absence is Absence.NOT_RECORDED_AT_LEVEL else _ABSENCE_REASONS[absence]


def _set_part_verdicts(target: Graph, golden: Graph, table: LeafTable) -> None:
    """Set the verdicts of the parts of fused layers, which were judged together.

    The first part has the verdict; the others refer to it.
    """
    for number, names in table.joined.items():
        pair = table.entries[number]
        verdict = target.nodes[pair.target or ""].verdict or NodeVerdict()
        note = f"{' + '.join(names)} taken together"
        verdict.reason = f"{verdict.reason}; {note}" if verdict.reason else note
        in_target = names[0] == pair.target
        parts, whole = (target, pair.golden) if in_target else (golden, pair.target)
        for name in names[1:]:
            reason = f"judged with {names[0]}, as a part of {whole}"
            parts.nodes[name].verdict = NodeVerdict(verdict.own, error=verdict.error, reason=reason, excused=True)


def _paired_verdict(level: int, error: float, differs: bool, checked: bool) -> NodeVerdict:
    precision = _LEVEL_PRECISION[level]
    if not checked:
        return NodeVerdict("not_compared", reason="values are missing on a side", precision=precision)
    return NodeVerdict(LEVEL_NAMES[level] if level or differs else "same", error=error, precision=precision)


def _worst_reason(comparison: Comparison, rows: RowVerdicts, candidates: range, level: int) -> str:
    """Return the place and the message of the first row of this level."""
    for row in candidates:
        messages = rows.messages(row) if rows.levels[row] == level else ()
        if messages:
            leaf = comparison.table.target[row] or comparison.table.golden[row]
            text = messages[0].partition(": ")[2]
            return f"{leaf.suffix.lstrip('.') if leaf is not None else 'value'}: {text}"
    return ""


def _set_published_precision(target: Graph, *, checksums: bool) -> None:
    """Apply the exceptions of the published rules.

    Calls of the empty family have a fixed precision, collections have that of their worst child.
    """
    for node in target.post_order():
        verdict = node.verdict
        if verdict is None or node.match is None:
            continue
        if node.kind is NodeKind.API and verdict.precision is not None and node.name.split(".", 2)[1] in _EMPTY_FAMILY:
            verdict.precision = 1 if checksums else 0
        elif node.kind is NodeKind.COLLECTION:
            below = [child.verdict.precision for child in node.children if child.verdict is not None]
            verdict.precision = max((value for value in below if value is not None), default=0)


def roll_up(target: Graph, golden: Graph) -> None:
    """Set counts and worst verdicts of subtrees, on both sides."""
    only_golden: dict[int, list[Node]] = {}
    for node in golden.pre_order():
        if node.match is None and node.parent is not None:
            above: Node | None = node.parent
            while above is not None and above.match is None:
                above = above.parent
            if above is not None and above.match is not None:
                only_golden.setdefault(id(above.match), []).append(node)
    for node in target.post_order():
        _add_children(node)
        for other in only_golden.get(id(node), ()):
            _add(node, other, own_only=True)
    for node in golden.post_order():
        if node.match is None:
            _add_children(node)


def _add_children(node: Node) -> None:
    verdict = node.verdict
    if verdict is None:
        return
    verdict.rollup = "no_data" if verdict.excused else verdict.own
    verdict.counts = [0, 0, 0, 0]
    index = None if verdict.excused else _COUNT_INDEX.get(verdict.own)
    if index is not None:
        verdict.counts[index] += 1
    for child in node.children:
        _add(node, child)
    if verdict.excused and verdict.rollup == "no_data":
        verdict.rollup = verdict.own


def _add(node: Node, other: Node, *, own_only: bool = False) -> None:
    """Add the verdict of another node to what rolls up to a node; ``own_only``: without what is below the other."""
    verdict, other_verdict = node.verdict, other.verdict
    if verdict is None or other_verdict is None:
        return
    if other_verdict.excused and not any(other_verdict.counts):
        return
    worst = other_verdict.own if own_only else other_verdict.rollup
    if SEVERITY[worst] > SEVERITY[verdict.rollup]:
        verdict.rollup = worst
    if own_only:
        index = _COUNT_INDEX.get(other_verdict.own)
        if index is not None:
            verdict.counts[index] += 1
        return
    for index, number in enumerate(other_verdict.counts):
        verdict.counts[index] += number
