"""Verdicts of nodes: from the rows of a comparison to each node, and from nodes to their parents.

A node's own verdict is that of its worst value. What rolls up is the worst below it, the node included; both sides of
a pair carry the same, and a call that only the golden run has counts in the module that lacks it.
"""

from __future__ import annotations

import numpy as np

from msprobe.compare.mode import Mode, Policy
from msprobe.compare.run import Comparison
from msprobe.compare.table import LeafTable
from msprobe.numerics.verdict import Kind
from msprobe.visualize.node import Finding, Graph, Node
from msprobe.visualize.node import Kind as NodeKind
from msprobe.visualize.pairing import only_here
from msprobe.visualize.row_verdicts import LEVELS, RowVerdicts

LARGEST = 1e300
RANKS = {"no_data": 0, "same": 1, "pass": 2, "not_compared": 3, "unmatched": 4, "warning": 5, "error": 6}
_COUNTED = {"same": 0, "pass": 0, "not_compared": 1, "warning": 1, "error": 2, "unmatched": 3}
_PRECISION = {"same": 0, "pass": 0, "not_compared": 0.5, "warning": 0.5, "error": 1, "unmatched": 0.5}
_FORCED = frozenset({
    "empty",
    "empty_like",
    "empty_with_format",
    "new_empty",
    "new_empty_strided",
    "empty_strided",
})
_CUT_OFF = "the other run ended before this call"
_OTHER_CODE = "only this program makes this call; where the code differs that is no difference"
_GROUPED = "the other run was recorded at another level and has no such group of calls"
_RECOMPUTED = "recomputed forward call, on one side only; nothing is missing"


def find(target: Graph, golden: Graph, comparison: Comparison, rows: RowVerdicts, *, merged: bool = False) -> None:
    """Set the finding of every node of both graphs. ``merged`` expects calls that only one layout of ranks has."""
    for graph, other in ((target, "golden run"), (golden, "target")):
        for node in graph.nodes.values():
            node.finding = _without_partner(node, other, merged) if node.match is None and node.parent else None
    _from_rows(target, golden, comparison, rows)
    for node in target.nodes.values():
        if node.finding is None:
            node.finding = Finding()
        if node.match is not None:
            node.match.finding = node.finding
    if comparison.policy is Policy.REFERENCE:
        _published_precision(target, checksums=comparison.mode is Mode.CHECKSUM)
    roll_up(target, golden)
    if comparison.policy is not Policy.REFERENCE:
        for node in target.nodes.values():
            if node.match is not None and node.finding is not None:
                node.finding.precision = _PRECISION.get(node.finding.rollup)


def _without_partner(node: Node, other: str, merged: bool) -> Finding:
    if merged and (node.kind is NodeKind.COLLECTION or only_here(node)):
        return Finding("not_compared", reason="only this layout of ranks has it", excused=True)
    return Finding("unmatched", reason=f"no partner in the {other}")


def _excuse_groups(graph: Graph) -> None:
    """Runs of different levels group the same calls differently: a group alone is nothing where its calls are not."""
    for node in graph.post_order():
        if node.match is not None or node.parent is None or node.name in graph.dump.data or not node.children:
            continue
        if all(child.match is not None or (child.finding and child.finding.excused) for child in node.children):
            node.finding = Finding("not_compared", reason=_GROUPED, excused=True)


def _from_rows(target: Graph, golden: Graph, comparison: Comparison, rows: RowVerdicts) -> None:
    table, measured = comparison.table, comparison.measured
    starts = table.starts.tolist()
    levels = np.array([*rows.levels, 0])
    hard = measured.kind >= Kind.ARGUMENT
    allowed = np.nan_to_num(comparison.judged.times, nan=0.0, posinf=LARGEST).clip(0.0, LARGEST)
    times = np.append(np.where(hard, LARGEST, allowed), 0.0)
    unchecked = (measured.kind == Kind.UNCHECKED) | (measured.kind == Kind.UNINITIALISED)
    differs = np.append(hard | (measured.worst > 0.0), False)
    checked = np.append(~unchecked, False)
    at = table.starts[:-1]
    per_entry = [np.maximum.reduceat(values, at).tolist() if len(at) else [] for values in (levels, times)]
    per_entry += [np.logical_or.reduceat(values, at).tolist() if len(at) else [] for values in (differs, checked)]
    for number, pair in enumerate(table.entries):
        if pair.target is None or pair.golden is None:
            node = target.nodes[pair.target] if pair.target is not None else golden.nodes[pair.golden or ""]
            if pair.benign:
                node.finding = Finding("not_compared", reason=_why_excused(table, number), excused=True)
            elif number in table.changed:
                changed = table.changed[number]
                node.finding = Finding("error", error=LARGEST, reason=f"{changed.suffix.lstrip('.')} {changed.text}")
            continue
        node = target.nodes[pair.target]
        start, stop = starts[number], starts[number + 1]
        if node.match is None or start == stop:
            continue
        level, error, other, seen = (values[number] for values in per_entry)
        node.finding = _finding(level, error, other, seen)
        if level:
            node.finding.reason = _reason(comparison, rows, range(start, stop), level)
    _judge_parts(target, golden, table)
    if table.unrecorded:
        _excuse_groups(target)
        _excuse_groups(golden)


def _why_excused(table: LeafTable, number: int) -> str:
    if number in table.unrecorded:
        return table.unrecorded[number]
    if table.key(number).recompute:
        return _RECOMPUTED
    return _OTHER_CODE if table.loose else _CUT_OFF


def _judge_parts(target: Graph, golden: Graph, table: LeafTable) -> None:
    """The parts of a fused layer have been judged together: the first stands for them, the others say so."""
    for number, names in table.joined.items():
        pair = table.entries[number]
        found = target.nodes[pair.target or ""].finding or Finding()
        told = f"{' + '.join(names)} taken together"
        found.reason = f"{found.reason}; {told}" if found.reason else told
        in_target = names[0] == pair.target
        parts, whole = (target, pair.golden) if in_target else (golden, pair.target)
        for name in names[1:]:
            why = f"judged with {names[0]}, as a part of {whole}"
            parts.nodes[name].finding = Finding(found.own, error=found.error, reason=why, excused=True)


def _finding(level: int, error: float, differs: bool, checked: bool) -> Finding:
    if not checked:
        return Finding("not_compared", reason="values are missing on a side", precision=(0, 0.5, 1)[level])
    own = LEVELS[level] if level or differs else "same"
    return Finding(own, error=error, precision=(0, 0.5, 1)[level])


def _reason(comparison: Comparison, rows: RowVerdicts, of: range, level: int) -> str:
    """Place and message of the first of the worst values."""
    for row in of:
        messages = rows.messages(row) if rows.levels[row] == level else ()
        if messages:
            leaf = comparison.table.target[row] or comparison.table.golden[row]
            text = messages[0].partition(": ")[2]
            return f"{leaf.suffix.lstrip('.') if leaf is not None else 'value'}: {text}"
    return ""


def _published_precision(target: Graph, *, checksums: bool) -> None:
    """The exceptions of the published rules: the empty family has a fixed level, collections take their worst child."""
    for node in target.post_order():
        finding = node.finding
        if finding is None or node.match is None:
            continue
        if node.kind is NodeKind.API and finding.precision is not None and node.name.split(".", 2)[1] in _FORCED:
            finding.precision = 1 if checksums else 0
        elif node.kind is NodeKind.COLLECTION:
            below = [child.finding.precision for child in node.children if child.finding is not None]
            finding.precision = max((value for value in below if value is not None), default=0)


def roll_up(target: Graph, golden: Graph) -> None:
    """Counts and worst verdicts of subtrees, on both sides."""
    lost: dict[int, list[Node]] = {}
    for node in golden.pre_order():
        if node.match is None and node.parent is not None:
            above: Node | None = node.parent
            while above is not None and above.match is None:
                above = above.parent
            if above is not None and above.match is not None:
                lost.setdefault(id(above.match), []).append(node)
    for node in target.post_order():
        _sum(node, node.children)
        for other in lost.get(id(node), ()):
            _add(node, other, own_only=True)
    for node in golden.post_order():
        if node.match is None:
            _sum(node, node.children)


def _sum(node: Node, children: list[Node]) -> None:
    finding = node.finding
    if finding is None:
        return
    finding.rollup = "no_data" if finding.excused else finding.own
    finding.counts = [0, 0, 0, 0]
    position = None if finding.excused else _COUNTED.get(finding.own)
    if position is not None:
        finding.counts[position] += 1
    for child in children:
        _add(node, child)
    if finding.excused and finding.rollup == "no_data":
        finding.rollup = finding.own


def _add(node: Node, other: Node, *, own_only: bool = False) -> None:
    finding, found = node.finding, other.finding
    if finding is None or found is None:
        return
    if found.excused and not any(found.counts):
        return
    verdict = found.own if own_only else found.rollup
    if RANKS[verdict] > RANKS[finding.rollup]:
        finding.rollup = verdict
    if own_only:
        position = _COUNTED.get(found.own)
        if position is not None:
            finding.counts[position] += 1
        return
    for position, number in enumerate(found.counts):
        finding.counts[position] += number
